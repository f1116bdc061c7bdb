// SPDX-License-Identifier: Apache-2.0
// Cost of passing values through a bounded queue from P producers to P consumers: coroutines on one
// loop, or each on a loop in a thread of its own.
#pragma once

#include <lab/experiments/channel/parties.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>
#include <lab/harness/timing.hpp>

#include <algorithm>
#include <barrier>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace lab::channel {

/// Where producers and consumers run.
enum class placement { one_loop, threads };

struct parameters {
  std::uint32_t pairs = 1;
  std::uint64_t values = 1'000'000;  ///< in all
  std::uint32_t capacity = 256;
  channel::placement placement = placement::one_loop;
};

/// The interface of a contender: a queue constructed with its capacity in messages.
template <class Queue>
concept contender_queue =
    std::constructible_from<Queue, std::uint32_t> &&
    requires(Queue& queue, producer& from, consumer& to) {
      queue.produce(from);  // sends all messages of `from`; on a thread of its own
      queue.consume(to);    // receives until `to` gets an end; on a thread of its own
    };

/// The additional interface of a contender with coroutines on a loop.
template <class Queue>
concept has_loop = requires(Queue& queue, parties& all) {
  queue.run(all);  // runs all producers and consumers on this thread
};

/// Rounds of threads that start together; a round ends when the last thread has finished.
template <class Queue>
class thread_rounds {
 public:
  thread_rounds(Queue& queue, parties& all, stopwatch& watch)
      : queue_(queue), all_(all), barrier_(std::ssize(all.producers) * 2, toggle{watch}) {}

  void run() {
    std::vector<std::jthread> threads;
    for (producer& each : all_.producers) {
      threads.emplace_back([this, &each] { run_between_barriers([&] { queue_.produce(each); }); });
    }
    for (consumer& each : all_.consumers) {
      threads.emplace_back([this, &each] { run_between_barriers([&] { queue_.consume(each); }); });
    }
  }

 private:
  struct toggle {
    stopwatch& watch;
    bool running = false;

    void operator()() noexcept {
      running = !running;
      running ? watch.start() : watch.stop();
    }
  };

  template <class Work>
  void run_between_barriers(Work work) {
    barrier_.arrive_and_wait();
    work();
    barrier_.arrive_and_wait();
  }

  Queue& queue_;
  parties& all_;
  std::barrier<toggle> barrier_;
};

template <contender_queue Queue>
void run_round(Queue& queue, parties& all, placement where, stopwatch& watch) {
  if (where == placement::threads) {
    thread_rounds(queue, all, watch).run();
  } else if constexpr (has_loop<Queue>) {
    watch.start();
    queue.run(all);
    watch.stop();
  } else {
    throw usage_error("this contender has no placement one_loop");
  }
}

/// A small round warms up, the second is timed.
template <contender_queue Queue>
void run(const parameters& cell, const harness_options& harness, report& result) {
  stopwatch watch(harness.handicap);
  Queue queue(cell.capacity);
  parties few(cell.pairs, cell.values / 50 / cell.pairs + 1, fault::none);
  run_round(queue, few, cell.placement, watch);
  parties all(cell.pairs, cell.values / cell.pairs, harness.sabotage);
  const auto allocations_before = allocations();
  const double cpu_before = cpu_seconds();
  run_round(queue, all, cell.placement, watch);
  const double cpu = cpu_seconds() - cpu_before;
  const auto allocations_after = allocations();

  const std::uint64_t values = cell.values / cell.pairs * cell.pairs;
  result.metric("ns_per_value", watch.seconds() * 1e9 / static_cast<double>(values));
  result.metric("cpu_ns_per_value", cpu * 1e9 / static_cast<double>(values));
  result.metric("seconds", watch.seconds());
  result.metric("peak_memory_bytes", peak_memory_bytes());
  if (allocations_after) {
    const auto count = static_cast<double>(*allocations_after - *allocations_before);
    result.metric("allocations_per_value", count / static_cast<double>(values));
  }
  result.units("value", few.received() + all.received());
  result.check("values_received", all.received(), values);
  result.check("sum", all.sum(), all.expected_sum());
  result.check("out_of_order", all.out_of_order(), 0);
}

/// The main() of a contender of this experiment.
template <contender_queue Queue>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options.number("pairs", cell.pairs, "producers, and as many consumers", 1, 64)
      .number("values", cell.values, "values in all", 1'000, std::uint64_t{1} << 31)
      .number("capacity", cell.capacity, "values the queue has room for", 1, 1 << 20)
      .choice("placement", cell.placement, "where producers and consumers run",
              {{"one_loop", placement::one_loop}, {"threads", placement::threads}});
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Queue>(cell, harness, result);
                             });
}

}  // namespace lab::channel
