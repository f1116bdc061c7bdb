// SPDX-License-Identifier: Apache-2.0
#include <gyre/runtime/detail/shutdown_sequence.hpp>

#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/recorded_task.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/live_tasks.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace gyre::detail {

void shutdown_entry::begin(std::shared_ptr<shutdown_entry> self, shutdown_step step) noexcept {
  self_ = std::move(self);
  step_.emplace(std::move(step));
  target_.post(*this);
}

void shutdown_entry::run(operation& self) {
  auto& entry = static_cast<shutdown_entry&>(self);
  const auto owner = std::move(entry.self_);
  shutdown_step step = std::move(*entry.step_);
  entry.step_.reset();
  entry.call(std::move(step));
}

void shutdown_entry::call(shutdown_step step) noexcept {
  shutdown_sequence& sequence = *step.sequence_;
  // The call may end its step and then throw; this copy of the step lasts until the exception is
  // stored.
  const shutdown_step end_of_call = sequence.copy(step);
  const std::lock_guard lock(mutex_);
  if (is_unregistered()) return;
  is_calling_ = true;
  try {
    call_(std::move(step));
  } catch (...) {
    sequence.fail(std::current_exception());
  }
  is_calling_ = false;
  call_ = {};
}

void shutdown_entry::unregister() noexcept {
  const std::lock_guard lock(mutex_);
  is_unregistered_.store(true, std::memory_order_relaxed);
  if (!is_calling_) call_ = {};
}

namespace {

void print_live_tasks() noexcept try {
  if (records_live_tasks()) {
    static_cast<void>(std::fputs(live_tasks_summary().c_str(), stderr));
  } else {
    static_cast<void>(std::fputs(
        "gyre::record_live_tasks(true), first in main(), makes this name them\n", stderr));
  }
} catch (...) {  // NOLINT: if memory is exhausted, prints no names
}

}  // namespace

shutdown_sequence::shutdown_sequence(event_loop& control_loop, limits time_limits,
                                     move_only_function<void(shutdown_phase)> on_phase)
    : control_loop_(control_loop),
      limits_(time_limits),
      on_phase_(std::move(on_phase)),
      wake_watch_(control_loop, wake_.fd(),
                  [this](readiness) {
                    wake_.lower();
                    advance();
                  }),
      timer_(control_loop, [this] { advance(); }) {
  wake_watch_.start(readiness::readable);
}

void shutdown_sequence::run() {
  advance();
  if (stage_ != stage::over) control_loop_.run();
}

// This function must be async-signal-safe.
void shutdown_sequence::add_request(std::uint32_t request) noexcept {
  // release: pairs with the acquire in advance().
  requests_.fetch_or(request, std::memory_order_release);
  wake_.raise();
}

// The control loop's thread is the only one that writes stage_.
void shutdown_sequence::advance() {
  // acquire: pairs with the release in add_request().
  const std::uint32_t requests = requests_.load(std::memory_order_acquire);
  if (requests == 0 || stage_ == stage::over) return;
  const steady_time current_time = control_loop_.now();
  if (stage_ == stage::running)
    enter(shutdown_phase::stop_accepting, later(current_time, limits_.drain));
  if (stage_ < stage::force && ((requests & force_requested) != 0 || current_time >= deadline_)) {
    is_forced_ = true;
    tasks_.fetch_or(closed_bit, std::memory_order_relaxed);
    enter(shutdown_phase::force, later(current_time, limits_.force));
  }
  if (stage_ == stage::stop_accepting && !has_steps()) enter(shutdown_phase::drain, deadline_);
  if (stage_ >= stage::drain && try_finish()) {
    timer_.cancel();
    control_loop_.stop();
  } else if (stage_ == stage::force && current_time >= deadline_) {
    give_up();
  }
}

void shutdown_sequence::enter(shutdown_phase phase, steady_time deadline) {
  std::vector<std::shared_ptr<shutdown_entry>> due_entries;
  {
    const std::lock_guard lock(mutex_);
    stage_ = stage_of(phase);
    deadline_ = deadline;
    for (auto& entry : entries_) {
      if (entry->phase() == phase) due_entries.push_back(std::move(entry));
    }
    std::erase(entries_, nullptr);
    steps_ += due_entries.size();
  }
  timer_.start_at(deadline);
  if (on_phase_) on_phase_(phase);
  for (std::size_t i = 0; i <= static_cast<std::size_t>(phase); ++i) {
    sources_[i].request_stop();
  }
  for (auto& entry : due_entries) {
    shutdown_entry& called_entry = *entry;
    called_entry.begin(std::move(entry), shutdown_step(*this, phase, deadline));
  }
}

// The last task and the last step end under the lock, so that their threads no longer use this
// object when their end is seen here.
bool shutdown_sequence::try_finish() noexcept {
  // Declared before the lock, so that the entries are destroyed after its release.
  std::vector<std::shared_ptr<shutdown_entry>> unused_entries;
  std::unique_lock lock(mutex_);
  // acquire: pairs with the release in end_task().
  std::size_t old_tasks = tasks_.load(std::memory_order_acquire);
  if (steps_ > 0 || old_tasks / one_task > 0) return false;
  if (waiting_tasks_ > 0) {
    tasks_.fetch_add(std::exchange(waiting_tasks_, 0) * one_task, std::memory_order_relaxed);
    lock.unlock();
    other_tasks_end_event_.set();
    return false;
  }
  // acquire: pairs with the release in end_task(). Fails if another task has begun; that task wakes
  // the control loop when it ends.
  if (!tasks_.compare_exchange_strong(old_tasks, closed_bit, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
    return false;
  }
  stage_ = stage::over;
  unused_entries.swap(entries_);
  return true;
}

void shutdown_sequence::give_up() noexcept {
  const std::lock_guard lock(mutex_);
  static_cast<void>(
      std::fprintf(stderr, "gyre::runtime: gave up: %zu tasks and %zu shutdown hooks did not end\n",
                   unended_tasks(), steps_));
  print_live_tasks();
  std::_Exit(EXIT_FAILURE);
}

shutdown_hook shutdown_sequence::add(shutdown_phase phase, executor& target,
                                     shutdown_entry::function call) {
  auto entry = std::make_shared<shutdown_entry>(phase, target, std::move(call));
  shutdown_hook hook(entry);
  std::unique_lock lock(mutex_);
  if (stage_ < stage_of(phase)) {
    if (entries_.size() >= purge_size_) {
      std::erase_if(entries_, [](const auto& old_entry) { return old_entry->is_unregistered(); });
      purge_size_ = std::max<std::size_t>(16, 2 * entries_.size());
    }
    entries_.push_back(std::move(entry));
  } else if (stage_ != stage::over) {
    ++steps_;
    shutdown_step step(*this, phase_of(stage_), deadline_);
    lock.unlock();
    shutdown_entry& called_entry = *entry;
    called_entry.begin(std::move(entry), std::move(step));
  }
  return hook;
}

shutdown_step shutdown_sequence::copy(const shutdown_step& step) noexcept {
  const std::lock_guard lock(mutex_);
  ++steps_;
  return {*this, step.phase(), step.deadline()};
}

// Ignores stop requests, because most tasks that wait here were requested to stop.
task<> shutdown_sequence::wait_for_other_tasks() {
  task_context& context = co_await this_context();
  if (!is_counted(context)) {
    throw std::logic_error("gyre::runtime: drained() is for tasks of the runtime");
  }
  const stopped_by no_stop(context, inplace_stop_token{});
  {
    const std::lock_guard lock(mutex_);
    if (!other_tasks_end_event_.is_set()) {
      ++waiting_tasks_;
      // release: pairs with the acquire in try_finish().
      tasks_.fetch_sub(one_task, std::memory_order_release);
      wake_.raise();
    }
  }
  co_await other_tasks_end_event_.wait();
}

bool shutdown_sequence::is_counted(const task_context& context) const noexcept {
  const local_binding* binding = context.locals;
  while (binding != nullptr && binding->key != this) binding = binding->outer;
  return binding != nullptr;
}

void shutdown_sequence::end_step() noexcept {
  const std::lock_guard lock(mutex_);
  if (--steps_ == 0) wake_.raise();
}

bool shutdown_sequence::has_steps() const noexcept {
  const std::lock_guard lock(mutex_);
  return steps_ > 0;
}

// A refused task is never counted, because nothing would report its end.
void shutdown_sequence::begin_task() {
  std::size_t old_tasks = tasks_.load(std::memory_order_relaxed);
  do {
    if ((old_tasks & closed_bit) != 0) throw_error(std::errc::operation_canceled);
    // relaxed: another task that is still counted, or the caller's own synchronisation, orders this
    // count before the end.
  } while (
      !tasks_.compare_exchange_weak(old_tasks, old_tasks + one_task, std::memory_order_relaxed));
}

void shutdown_sequence::end_task() noexcept {
  std::size_t old_tasks = tasks_.load(std::memory_order_relaxed);
  while (old_tasks / one_task > 1) {
    // release: pairs with the acquire in try_finish().
    if (tasks_.compare_exchange_weak(old_tasks, old_tasks - one_task, std::memory_order_release,
                                     std::memory_order_relaxed)) {
      return;
    }
  }
  const std::lock_guard lock(mutex_);
  tasks_.fetch_sub(one_task, std::memory_order_release);
  wake_.raise();
}

void shutdown_sequence::fail(std::exception_ptr error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  request();
}

}  // namespace gyre::detail
