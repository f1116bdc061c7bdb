// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/executor_watchdog.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/detail/log.hpp>
#include <gyre/base/detail/process_threads.hpp>
#include <gyre/base/detail/thread_stack.hpp>
#include <gyre/base/detail/ticks.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/function_names.hpp>
#include <gyre/trace/detail/recorder.hpp>
#include <gyre/trace/detail/recorder_set.hpp>
#include <gyre/trace/detail/text_report.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <utility>

namespace gyre {
namespace {

void print(const held_executor& report) {
  const auto duration = std::chrono::duration_cast<std::chrono::milliseconds>(report.duration);
  std::string text("gyre: '");
  text.append(report.name).append("' has been held for ");
  text += std::to_string(duration.count()) + " ms";
  if (!report.activity.empty()) text.append(" by ").append(report.activity);
  text += " (thread " + std::to_string(report.thread) + "): ";
  text += report.activity.empty() ? "a task, handler or coroutine blocks or computes there; move "
                                    "that to a thread_pool"
                                  : "move that to a thread_pool";
  for (const std::string& frame : report.stack) text.append("\n  at ").append(frame);
  detail::log(log_level::warning, text);
}

// Returns "function (image+offset)", or as much of it as is known.
std::string describe_call(std::uint64_t address, trace::detail::function_names& names) {
  // A return address may be the first one after the function's code.
  const trace::detail::code_place& place = names.find(address - 1);
  std::array<char, 32> offset{};
  std::snprintf(offset.data(), offset.size(), "0x%llx",
                static_cast<unsigned long long>(place.image.empty() ? address : place.offset));
  if (place.image.empty()) return offset.data();
  const std::string location = place.image + "+" + offset.data();
  return place.function.empty() ? location : place.function + " (" + location + ")";
}

// The shortest pause of the process that is recorded.
constexpr std::chrono::milliseconds min_pause{100};
// The time limit of a held thread's report of its stack.
constexpr std::chrono::milliseconds stack_timeout{50};

executor_watchdog_options validate(executor_watchdog_options settings) {
  detail::require_positive(settings.limit, "gyre::executor_watchdog: the limit");
  if (!settings.on_hold) settings.on_hold = &print;
  return settings;
}

}  // namespace

/// An operation that the watchdog posts periodically. It keeps itself alive while posted.
class executor_watchdog::heartbeat final : public operation {
 public:
  heartbeat() noexcept : operation(&run) {}

  /// Posts the heartbeat to `target`. Called by the watchdog's thread while it is not posted.
  void post(const std::shared_ptr<heartbeat>& self, executor& target, steady_time now) noexcept {
    posted_at_ = now;
    // relaxed: the post orders the store before the run of the heartbeat.
    is_posted_.store(true, std::memory_order_relaxed);
    self_ = self;
    try {
      target.post_discardable(
          *this, [](operation& op) noexcept { static_cast<heartbeat&>(op).finish(steady_time{}); });
    } catch (const std::bad_alloc&) {  // NOLINT: discarded; the watchdog posts it again
    }
  }
  bool is_posted() const noexcept {
    // acquire: pairs with the release in finish(); makes ran_at_ visible.
    return is_posted_.load(std::memory_order_acquire);
  }
  std::chrono::nanoseconds delay_at(steady_time now) const noexcept { return now - posted_at_; }
  /// Makes the heartbeat's delay not include a pause of the process.
  void subtract_pause(std::chrono::nanoseconds length) noexcept { posted_at_ += length; }

  // Returns the time of the last run of the heartbeat. Called while the heartbeat is not posted.
  steady_time ran_at() const noexcept { return ran_at_; }

  pid_t thread() const noexcept {
    return thread_.load(std::memory_order_relaxed);  // relaxed: the id orders nothing
  }

  bool is_reported = false;  // of the present delay; only the watchdog's thread uses it

 private:
  static void run(operation& op) {
    auto& self = static_cast<heartbeat&>(op);
    self.thread_.store(detail::thread_id(), std::memory_order_relaxed);
    self.finish(detail::monotonic_now());
  }
  void finish(steady_time now) noexcept {
    const std::shared_ptr<heartbeat> last = std::move(self_);
    ran_at_ = now;
    // release: pairs with the acquire in is_posted().
    is_posted_.store(false, std::memory_order_release);
  }

  std::shared_ptr<heartbeat> self_;
  steady_time posted_at_{};
  steady_time ran_at_{};
  detail::atomic<pid_t> thread_{0};
  detail::atomic<bool> is_posted_{false};
};

executor_watchdog::executor_watchdog(options settings)
    : options_(validate(std::move(settings))), thread_("watchdog", {}, [this] { run(); }) {}

executor_watchdog::~executor_watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_stop_requested_ = true;
  }
  stop_condition_.notify_one();
  thread_.join();
}

void executor_watchdog::watch(executor& target, std::string name) {
  auto beat = std::make_shared<heartbeat>();
  const std::lock_guard lock(mutex_);
  const auto match = std::ranges::find(executors_, &target, &watched_executor::target);
  if (match != executors_.end()) {
    match->name = std::move(name);
  } else {
    executors_.push_back({&target, std::move(name), std::move(beat)});
  }
}

void executor_watchdog::forget(executor& target) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(executors_,
                [&target](const watched_executor& entry) { return entry.target == &target; });
}

std::uint64_t executor_watchdog::holds() const noexcept {
  const std::lock_guard lock(mutex_);
  return holds_;
}

void executor_watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!is_stop_requested_) {
    for (watched_executor& entry : executors_) check(entry, detail::monotonic_now());
    const steady_time next_check = detail::later(detail::monotonic_now(), options_.limit);
    stop_condition_.wait_until(lock, next_check, [this] { return is_stop_requested_; });
    const std::chrono::nanoseconds lateness = detail::monotonic_now() - next_check;
    if (lateness >= std::max<std::chrono::nanoseconds>(min_pause, options_.limit)) {
      note_pause(lateness);
    }
  }
}

// Records that the process did not run for `length` until now.
void executor_watchdog::note_pause(duration length) noexcept {
  for (const watched_executor& entry : executors_) entry.beat->subtract_pause(length);
  trace::detail::recorder* const recorder = trace::detail::find_recorder();
  if (recorder == nullptr) return;
  const detail::tick_count time = detail::read_ticks();
  const detail::tick_count ticks = detail::measured_tick_rate().to_ticks(length);
  recorder->push({.begin = time - std::min(time, ticks),
                  .length = ticks,
                  .kind = trace::detail::event_kind::pause,
                  .object = 0,
                  .value = 0});
}

void executor_watchdog::report_hold(const watched_executor& entry, steady_time now) {
  const heartbeat& beat = *entry.beat;
  held_executor report{entry.name, entry.target, beat.delay_at(now), beat.thread()};
  std::string activity;
  std::vector<std::string> stack;
  try {
    trace::detail::function_names names;
    if (const auto own_activity = trace::detail::activity_of(report.thread)) {
      activity = trace::detail::describe_activity(own_activity->kind, own_activity->object, names);
    }
    if (options_.captures_stacks && report.thread != 0) {
      for (const std::uint64_t call : detail::capture_stack(report.thread, stack_timeout)) {
        stack.push_back(describe_call(call, names));
      }
    }
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the report says less
  }
  report.activity = activity;
  report.stack = stack;
  options_.on_hold(report);
}

void executor_watchdog::check(watched_executor& entry, steady_time now) {
  heartbeat& beat = *entry.beat;
  const bool is_late = beat.is_posted();
  if (is_late && !beat.is_reported && beat.delay_at(now) >= options_.limit) {
    beat.is_reported = true;
    ++holds_;
    report_hold(entry, now);
  }
  if (is_late) return;
  if (std::exchange(beat.is_reported, false) && options_.on_release) {
    options_.on_release({entry.name, entry.target, beat.delay_at(beat.ran_at()), beat.thread()});
  }
  beat.post(entry.beat, *entry.target, now);
}

}  // namespace gyre
