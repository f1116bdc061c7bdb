// SPDX-License-Identifier: Apache-2.0
// Throughput of a loop's task queue: N threads each post a number of callables to one loop that
// runs in a thread of its own; timed from just before the first post until the last callable has
// run. After evpp's queue report, benchmark/post_task6.cc (Qihoo 360, 2017).
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>
#include <lab/harness/timing.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace lab::post_task {

/// The wake-ups by a producer: only when the loop sleeps, or a system call for every task, as in
/// the published report's evpp 0.3.1.
enum class wakeup { coalesced, per_task };

struct parameters {
  std::uint32_t producers = 4;
  std::uint32_t tasks = 1'000'000;  ///< by each producer
  post_task::wakeup wakeup = wakeup::coalesced;
  std::uint32_t callable = 16;  ///< bytes of each
};

class task_results;

/// The posted callable: the words behind the first two stand for further captures, and are written
/// by the producer and read by the loop, as captures are.
template <std::size_t Bytes>
struct task {
  task_results* done;
  std::uint32_t producer;
  std::array<std::uint32_t, (Bytes - 12) / 4> sequence;

  void operator()() const;
};
/// The smallest one finds the results elsewhere, as a program that has a global object would.
template <>
struct task<8> {
  std::uint32_t producer;
  std::uint32_t sequence;

  static inline task_results* done = nullptr;

  void operator()() const;
};
static_assert(sizeof(task<8>) == 8 && sizeof(task<16>) == 16 && sizeof(task<120>) == 120);
static_assert(std::is_trivially_copyable_v<task<120>>);

/// The interface of a contender: a loop that the thread of the workload constructs and destroys. A
/// task that was posted before a stop() on the same thread is run.
template <class Loop>
concept contender_loop =
    std::constructible_from<Loop, wakeup> && requires(Loop& loop, task<16> work) {
      loop.run();       // runs posted tasks until stop()
      loop.stop();      // any thread
      loop.post(work);  // any thread; callables of every size
      {
        loop.wakeups()
      } -> std::same_as<std::optional<std::uint64_t>>;  // any thread; empty if unknown
      { Loop::can_wake_per_task } -> std::convertible_to<bool>;
    };

/// Counts the tasks that ran and checks their order, on the loop's thread; ends the round when the
/// last task of every producer has run.
class task_results {
 public:
  task_results(std::uint32_t producers, stopwatch& watch) : watch_(watch), producers_(producers) {}

  /// Starts a round of `tasks` per producer. Only while no task is waiting or running.
  void begin(std::uint32_t tasks) {
    last_ = tasks - 1;
    finished_ = 0;
    std::ranges::for_each(producers_, &producer::reset);
  }

  void ran(std::uint32_t id, std::uint32_t sequence) {
    producer& from = producers_[id];
    // relaxed: only this thread writes; other threads read it as a sign of progress.
    from.run.store(from.run.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    from.out_of_order += sequence != from.next;
    from.next = sequence + 1;
    if (sequence == last_ && ++finished_ == producers_.size()) [[unlikely]] {
      watch_.stop();
      completed_.set();
    }
  }

  /// Waits for the end of the round; false when nothing runs any more.
  bool wait() {
    return completed_.wait([this] { return run(); });
  }

  /// Tasks that ran in this round. Thread-safety: any thread; exact once wait() has returned.
  std::uint64_t run() const {
    std::uint64_t sum = 0;
    // relaxed: see ran().
    for (const producer& each : producers_) sum += each.run.load(std::memory_order_relaxed);
    return sum;
  }

  /// Tasks that did not follow the one posted before them by the same producer. Only after the
  /// loop's thread is joined.
  std::uint64_t out_of_order() const {
    std::uint64_t sum = 0;
    for (const producer& each : producers_) sum += each.out_of_order;
    return sum;
  }

 private:
  struct producer {
    std::atomic<std::uint64_t> run = 0;
    std::uint32_t next = 0;
    std::uint32_t out_of_order = 0;

    void reset() {
      run.store(0, std::memory_order_relaxed);  // relaxed: no task runs during begin().
      next = 0;
      out_of_order = 0;
    }
  };

  stopwatch& watch_;
  completion_event completed_;
  std::vector<producer> producers_;
  std::uint32_t last_ = 0;
  std::size_t finished_ = 0;
};

template <std::size_t Bytes>
void task<Bytes>::operator()() const {
  // All words are the same, so that this is the sequence.
  std::uint32_t all = sequence.front();
  for (const std::uint32_t each : sequence) all &= each;
  done->ran(producer, all);
}
inline void task<8>::operator()() const { done->ran(producer, sequence); }

template <std::size_t Bytes>
task<Bytes> make_task(task_results& done, std::uint32_t id, std::uint32_t sequence) {
  if constexpr (Bytes == 8) {
    return {id, sequence};
  } else {
    task<Bytes> made{&done, id, {}};
    made.sequence.fill(sequence);
    return made;
  }
}

/// Posts the tasks of one producer in a round, and injects `sabotage` into the middle one.
template <std::size_t Bytes, contender_loop Loop>
void produce(Loop& loop, task_results& done, std::uint32_t id, std::uint32_t tasks,
             fault sabotage) {
  const auto post = [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t i = begin; i < end; ++i) loop.post(make_task<Bytes>(done, id, i));
  };
  const std::uint32_t middle = tasks / 2;
  post(0, middle);
  if (sabotage == fault::duplicate) post(middle, middle + 1);
  post(sabotage == fault::lose ? middle + 1 : middle, tasks);
}

/// Two rounds on the same threads: a small one that warms up code, caches and allocators, and the
/// timed one.
template <std::size_t Bytes, contender_loop Loop>
void run(const parameters& cell, const harness_options& harness, report& result) {
  const std::uint32_t warm_up = std::max(cell.tasks / 50, 2u);
  stopwatch watch(harness.handicap);
  task_results done(cell.producers, watch);
  if constexpr (Bytes == 8) task<8>::done = &done;
  Loop loop(cell.wakeup);

  std::optional<std::uint64_t> allocations_before;
  std::optional<std::uint64_t> wakeups_before;
  double cpu_before = 0;
  // The last producer to arrive runs this, before any producer goes on.
  std::barrier start(static_cast<std::ptrdiff_t>(cell.producers) + 1, [&]() noexcept {
    allocations_before = allocations();
    wakeups_before = loop.wakeups();
    cpu_before = cpu_seconds();
    watch.start();
  });

  std::jthread consumer([&loop] { loop.run(); });
  std::vector<std::jthread> producers;
  for (std::uint32_t id = 0; id < cell.producers; ++id) {
    producers.emplace_back([&, id] {
      start.arrive_and_wait();
      produce<Bytes>(loop, done, id, warm_up, fault::none);
      start.arrive_and_wait();
      produce<Bytes>(loop, done, id, cell.tasks, id == 0 ? harness.sabotage : fault::none);
    });
  }
  for (const std::uint32_t tasks : {warm_up, cell.tasks}) {
    const std::uint64_t posted = std::uint64_t{tasks} * cell.producers;
    done.begin(tasks);
    static_cast<void>(start.arrive());
    if (!done.wait()) {
      result.check("tasks_run", done.run(), posted);
      result.abandon();
    }
  }
  const double cpu = cpu_seconds() - cpu_before;
  const auto allocations_after = allocations();
  const auto wakeups_after = loop.wakeups();

  producers.clear();
  loop.stop();
  consumer.join();

  const std::uint64_t posted = std::uint64_t{cell.tasks} * cell.producers;
  const auto per_task = [posted](double amount) { return amount / static_cast<double>(posted); };
  result.metric("ns_per_task", per_task(watch.seconds() * 1e9));
  result.metric("cpu_ns_per_task", per_task(cpu * 1e9));
  result.metric("seconds", watch.seconds());
  if (wakeups_after) result.metric("wakeups", *wakeups_after - *wakeups_before);
  result.metric("peak_memory_bytes", peak_memory_bytes());
  if (allocations_after) {
    const auto count = static_cast<double>(*allocations_after - *allocations_before);
    result.metric("allocations_per_task", per_task(count));
  }
  result.units("task", std::uint64_t{warm_up} * cell.producers + posted);
  result.check("tasks_run", done.run(), posted);
  result.check("out_of_order", done.out_of_order(), 0);
}

/// Runs a cell of `Loop` with callables of the cell's size.
template <contender_loop Loop>
void run_sized(const parameters& cell, const harness_options& harness, report& result) {
  switch (cell.callable) {
    case 8: return run<8, Loop>(cell, harness, result);
    case 16: return run<16, Loop>(cell, harness, result);
    case 24: return run<24, Loop>(cell, harness, result);
    case 32: return run<32, Loop>(cell, harness, result);
    case 64: return run<64, Loop>(cell, harness, result);
    case 120: return run<120, Loop>(cell, harness, result);
    default: throw usage_error("--callable: must be 8, 16, 24, 32, 64 or 120");
  }
}

/// The main() of a contender of this experiment.
template <contender_loop Loop>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options.number("producers", cell.producers, "threads that post to the loop", 1, 1024)
      .number("tasks", cell.tasks, "callables each of them posts", 2)
      .number("callable", cell.callable, "bytes of a callable: 8, 16, 24, 32, 64 or 120", 8, 120);
  constexpr const char* help = "when a producer wakes the loop";
  if constexpr (Loop::can_wake_per_task) {
    options.choice("wakeup", cell.wakeup, help,
                   {{"coalesced", wakeup::coalesced}, {"per_task", wakeup::per_task}});
  } else {
    options.choice("wakeup", cell.wakeup, help, {{"coalesced", wakeup::coalesced}});
  }
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run_sized<Loop>(cell, harness, result);
                             });
}

}  // namespace lab::post_task
