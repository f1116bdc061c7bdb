// SPDX-License-Identifier: Apache-2.0
// slow_event_mailbox: passes an event that exceeds a limit from the thread that records it to the
// thread of the dump_writer.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/trace/detail/event.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace gyre::trace::detail {

/// A mailbox for one event. There is one mailbox in the program, and it is never destroyed, because
/// threads record events while static objects are destroyed.
///
/// | state   | acquire() | put() | wait()            | reopen_after() | stop()  |
/// |---------|-----------|-------|-------------------|----------------|---------|
/// | stopped | open      | skips | nothing           | -              | -       |
/// | open    | -         | full  | waits             | -              | stopped |
/// | full    | -         | skips | closed, the event | -              | stopped |
/// | closed  | -         | skips | -                 | open           | stopped |
///
/// Thread-safety: put() by any thread; one thread waits.
class slow_event_mailbox {
 public:
  /// The mailbox of the program.
  static slow_event_mailbox& instance();

  /// Makes the mailbox a dump_writer's. Returns false if it is one's already.
  bool acquire() noexcept;
  void release() noexcept;

  /// Stores the event if one is awaited, or else counts it as skipped: a relaxed addition.
  void put(const event& slow_event) noexcept;
  /// Waits for an event; nothing after stop().
  std::optional<event> wait();
  /// Waits for `length`, or until stop().
  void reopen_after(duration length);
  void stop() noexcept;
  /// Returns the number of events that were skipped since acquire().
  [[nodiscard]] std::uint64_t skipped() const noexcept;

 private:
  slow_event_mailbox();

  static void close_in_child();

  // Whether a thread awaits an event. A reporting thread checks the flag before it locks the mutex.
  std::atomic<bool> is_open_{false};
  std::atomic<std::uint64_t> skipped_events_{0};
  std::mutex mutex_;  // guards the members below
  std::condition_variable change_condition_;
  std::optional<event> content_;
  bool is_acquired_ = false;
  bool is_stopped_ = true;
};

}  // namespace gyre::trace::detail
