// SPDX-License-Identifier: Apache-2.0
// inbox::policy: the concept of a loop's inbox, a multi-producer, single-consumer queue of tasks.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/histogram.hpp>

#include <concepts>
#include <cstddef>

namespace gyre::inbox {

/// The order of tasks that different threads posted.
enum class ordering {
  /// The tasks of each thread run in the order in which it posted them. Tasks of different threads
  /// may overtake each other, even if one post happens-before the other.
  per_producer,
  /// One order for all threads: a task runs first if its post happens-before the other's.
  total,
};

/// A budget for the tasks that run between two checks of timers and descriptors. A task that calls
/// event_loop::stop() ends its batch.
class batch {
 public:
  /// `post_lateness`, unless null, gets the times of the posts that the inbox times.
  explicit batch(std::size_t limit, histogram* post_lateness = nullptr) noexcept
      : limit_(limit), post_lateness_(post_lateness) {}
  /// Called by the inbox: more() returns whether another task may run, left() how many at most.
  bool more() const noexcept { return !has_ended_ && task_count_ < limit_; }
  bool ended() const noexcept { return has_ended_; }
  std::size_t left() const noexcept { return limit_ - task_count_; }
  /// Called by the inbox: counts tasks that have been called, including one that has thrown.
  void count(std::size_t tasks) noexcept { task_count_ += tasks; }
  /// Called by the inbox before the task of a timed post runs. An inbox need not time posts.
  void record_timed_post(steady_time posted_at) noexcept {
    if (post_lateness_ != nullptr) {
      post_lateness_->record(gyre::detail::monotonic_now() - posted_at);
    }
  }

  void end() noexcept { has_ended_ = true; }
  std::size_t ran() const noexcept { return task_count_; }
  bool full() const noexcept { return task_count_ >= limit_; }

 private:
  std::size_t limit_;
  std::size_t task_count_ = 0;
  bool has_ended_ = false;
  histogram* post_lateness_;
};

/// An MPSC queue of callables, also of move-only ones; the consumer is the loop's thread.
///
/// - `push` stores a callable. Any thread, tasks included. Throws std::bad_alloc and exceptions of
///   the callable's constructors; the queue is then unchanged; an rvalue may have been moved from.
/// - `run` runs tasks while `batch::more()` and the queue has any. A task's exception passes
///   through; the next call continues after that task.
/// - `ready` returns whether `run` would find a task.
/// - `pending` estimates the number of tasks that have not run. Any thread.
/// - The destructor destroys the tasks that have not run.
template <class Inbox>
concept policy = std::default_initializable<Inbox> &&
                 requires(Inbox& inbox, const Inbox& view, batch& tasks, void (*task)()) {
                   { Inbox::order } -> std::convertible_to<ordering>;
                   inbox.push(task);
                   inbox.run(tasks);
                   { inbox.ready() } -> std::same_as<bool>;
                   { view.pending() } -> std::same_as<std::size_t>;
                 };

}  // namespace gyre::inbox
