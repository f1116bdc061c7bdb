// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/engines/load.hpp>

#include <lab/harness/memory.hpp>
#include <lab/harness/program.hpp>
#include <lab/harness/timing.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

namespace lab::engines {
namespace {

using std::chrono::milliseconds;

// The threads of a client, each with its callers.
class caller_threads {
 public:
  caller_threads(const load_plan& plan, const item_set& items, fault sabotage)
      : groups_(plan.threads) {
    std::uint32_t index = 0;
    for (std::uint32_t thread = 0; thread < plan.threads; ++thread) {
      const std::uint64_t end = std::uint64_t{plan.callers} * (thread + 1) / plan.threads;
      groups_[thread].callers = std::vector<caller>(end - index);
      for (caller& each : groups_[thread].callers) {
        each.prepare(items, stop_, index, index == 0 ? sabotage : fault::none);
        ++index;
      }
    }
  }
  caller_threads(const caller_threads&) = delete;
  caller_threads& operator=(const caller_threads&) = delete;

  void start(const std::function<void(std::span<caller>)>& serve) {
    for (group& each : groups_) {
      each.thread = std::thread([this, &each, &serve] {
        std::exception_ptr error;
        try {
          serve(each.callers);
        } catch (...) {
          error = std::current_exception();
        }
        const std::lock_guard lock(mutex_);
        ++ended_;
        if (error_ == nullptr) error_ = error;
        changed_.notify_one();
      });
    }
  }

  void stop() { stop_.store(true, std::memory_order_relaxed); }

  // Waits, but not for longer than this, until `done` threads have ended.
  bool await_ended(std::size_t done, milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return ended_ >= done; });
  }
  bool await_all_ended(milliseconds limit) { return await_ended(groups_.size(), limit); }

  void join() {
    for (group& each : groups_) each.thread.join();
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

  bool all_were_answered() const {
    for (const group& each : groups_) {
      for (const caller& one : each.callers) {
        if (one.answered() == 0) return false;
      }
    }
    return true;
  }

  std::uint64_t sum(std::uint64_t (caller::*count)() const noexcept) const {
    std::uint64_t total = 0;
    for (const group& each : groups_) {
      for (const caller& one : each.callers) total += (one.*count)();
    }
    return total;
  }

 private:
  struct group {
    std::vector<caller> callers;  // side by side, as they have cache lines of their own
    std::thread thread;
  };

  std::atomic<bool> stop_{false};
  std::vector<group> groups_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t ended_ = 0;
  std::exception_ptr error_;
};

// Ends the process, whose threads hang.
[[noreturn]] void abandon(caller_threads& threads, report& result) {
  result.fail("a caller has had no reply for ten seconds");
  result.check("answers", threads.sum(&caller::answered), threads.sum(&caller::asked));
  scratch_folder::remove_all();
  result.abandon();
}

// Waits until `happened`; false when a thread has ended before.
template <class Happened>
bool await(caller_threads& threads, milliseconds patience, report& result, Happened happened) {
  const clock::time_point began = clock::now();
  while (!happened()) {
    if (threads.await_ended(1, milliseconds{1})) return false;
    if (clock::now() - began > patience) abandon(threads, result);
  }
  return true;
}

}  // namespace

network::side_cpus split_cpus(const std::vector<unsigned>& cpus, std::uint32_t threads) {
  network::side_cpus sides = network::split_cpus(cpus);
  return threads > sides.client.size() ? network::side_cpus{cpus, cpus} : sides;
}

void run_callers(const load_plan& plan, const harness_options& harness, const item_set& items,
                 const unit_name& unit, const std::function<network::usage()>& engine,
                 const std::function<void(std::span<caller>)>& serve, report& result) {
  if (plan.callers < plan.threads) throw std::runtime_error("fewer callers than threads");
  const milliseconds duration{plan.duration_ms};
  caller_threads threads(plan, items, harness.sabotage);
  threads.start(serve);
  const bool is_running =
      await(threads, plan.patience, result, [&threads] { return threads.all_were_answered(); });
  if (is_running) threads.await_ended(1, duration / 4);

  const network::usage engine_before = engine();
  const std::optional<std::uint64_t> allocated_before = allocations();
  const std::uint64_t answered_before = threads.sum(&caller::answered);
  const double cpu_before = cpu_seconds();
  stopwatch watch(harness.handicap);
  watch.start();
  threads.await_ended(1, duration);
  // A busy machine may not have run the client at all.
  await(threads, plan.patience, result,
        [&] { return threads.sum(&caller::answered) > answered_before; });
  const std::uint64_t answered = threads.sum(&caller::answered) - answered_before;
  const double cpu = cpu_seconds() - cpu_before;
  watch.stop();
  const std::optional<std::uint64_t> allocated = allocations();
  const network::usage engine_after = engine();

  threads.stop();
  std::uint64_t progress = 0;
  while (!threads.await_all_ended(plan.patience)) {
    const std::uint64_t now = threads.sum(&caller::answered);
    if (now == progress) abandon(threads, result);
    progress = now;
  }
  threads.join();
  result.check("answers", threads.sum(&caller::answered), threads.sum(&caller::asked));
  result.check("wrong_answers", threads.sum(&caller::wrong), 0);
  if (answered == 0) result.fail("no reply in the measured time");
  if (!result.ok()) return;

  const auto count = static_cast<double>(answered);
  result.metric(unit.many + "_per_second", count / watch.seconds());
  result.metric("client_cpu_ns_per_" + unit.one, cpu * 1e9 / count * (1 + harness.handicap / 100));
  result.metric("server_cpu_ns_per_" + unit.one,
                (engine_after.cpu_seconds - engine_before.cpu_seconds) * 1e9 / count);
  if (allocated_before && allocated) {
    result.metric("allocations_per_" + unit.one,
                  static_cast<double>(*allocated - *allocated_before) / count);
  }
  result.metric("client_peak_memory_bytes", peak_memory_bytes());
  result.units(unit.one, threads.sum(&caller::answered));
}

}  // namespace lab::engines
