// SPDX-License-Identifier: Apache-2.0
// What a loop asks of the queue that brings it tasks from other threads.
#pragma once

#include <concepts>
#include <cstddef>

namespace gyre::inbox {

/// In which order tasks run that different threads posted.
enum class ordering {
  /// Each thread's tasks run in the order that thread posted them; tasks of different threads may
  /// overtake each other, even when one post happens-before the other.
  per_producer,
  /// One order for all: a post that happens-before another one (same thread or not) runs first.
  total,
};

/// How many tasks may still run before the loop looks at its timers and descriptors, and how many
/// have. A task may end() the batch it is part of.
class batch {
 public:
  explicit batch(std::size_t limit) noexcept : limit_(limit) {}

  /// Inbox: whether another task may run; how many at most, if none of them ends the batch.
  bool more() const noexcept { return !ended_ && ran_ < limit_; }
  bool ended() const noexcept { return ended_; }
  std::size_t left() const noexcept { return limit_ - ran_; }
  /// Inbox: that many tasks have been called, a throwing one included.
  void count(std::size_t tasks) noexcept { ran_ += tasks; }

  void end() noexcept { ended_ = true; }
  std::size_t ran() const noexcept { return ran_; }
  bool full() const noexcept { return ran_ >= limit_; }

 private:
  std::size_t limit_;
  std::size_t ran_ = 0;
  bool ended_ = false;
};

/// A queue of callables with many producers and one consumer, the loop's thread.
///
/// `push` may be called from any thread, and from a task; it throws std::bad_alloc if it cannot
/// store the callable, which is then destroyed and nothing else touched.
/// `run` runs tasks until the batch is full or none is left, and lets a task's exception pass with
/// the inbox in good order: that task is done, the next call goes on behind it.
/// `ready` tells whether `run` would find a task. `pending` (any thread) counts the tasks that have
/// not been run; exact while nobody pushes or runs. The destructor destroys what was not run.
template <class Inbox>
concept policy = std::default_initializable<Inbox> &&
                 requires(Inbox& inbox, const Inbox& view, batch& some, void (*task)()) {
                   { Inbox::order } -> std::convertible_to<ordering>;
                   inbox.push(task);
                   inbox.run(some);
                   { inbox.ready() } -> std::same_as<bool>;
                   { view.pending() } -> std::same_as<std::size_t>;
                 };

}  // namespace gyre::inbox
