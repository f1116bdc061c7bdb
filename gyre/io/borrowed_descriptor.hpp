// SPDX-License-Identifier: Apache-2.0
// borrowed_descriptor: awaits the readiness of a descriptor that somebody else owns, such as the
// socket of a C library.
//
//     gyre::io::borrowed_descriptor socket(loop, ::PQsocket(connection));
//     while (::PQisBusy(connection) != 0) {
//       co_await socket.wait_readable();
//       if (::PQconsumeInput(connection) == 0) throw failure_of(connection);
//     }
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/poller.hpp>
#include <gyre/task/from_callback.hpp>
#include <gyre/task/task.hpp>

#include <optional>
#include <system_error>

namespace gyre::io {

/// Awaits the readiness of a borrowed descriptor; reads, writes and closes nothing. The descriptor
/// may be of any kind that poll(2) can wait for: a socket, a pipe, a terminal, an eventfd, a
/// timerfd, the epoll instance of another event loop. Readiness is that of poll(2), a state and not
/// a change: a wait ends at once while bytes are left to be read, whoever has read before. For a
/// descriptor that the program owns itself, io::stream reads and writes with fewer system calls.
///
/// Any number of coroutines may wait at the same time, for the same events or for others. All whose
/// events have come are resumed, so that a waiter may find that another one has read the bytes.
///
/// Thread-safety: the loop's thread; while no thread runs the loop, one thread at a time. A stop
/// may be requested on any thread.
/// Lifetime: the loop must outlive the object. The loop knows the descriptor only while a coroutine
/// waits. So its owner may close it, and use its number again, whenever none waits; to close it
/// while coroutines wait, call release() or destroy this object before: their waits then end. A
/// descriptor that is closed during a wait without that is never reported, and another descriptor
/// with its number may lose its reports. One object at a time of a loop may wait for a descriptor.
/// A waiting coroutine may be destroyed on the loop's thread, unless its events have come already.
/// Errors: std::system_error: io::errc::closed for a wait that release() or the destructor ended,
/// not_open after release(), wrong_thread; std::errc::file_exists if another object of the loop
/// waits for the descriptor; std::errc::operation_not_permitted for a regular file, and for a
/// device that is always ready, such as /dev/null; std::errc::bad_file_descriptor. A stop throws
/// gyre::operation_cancelled.
/// Complexity: a wait costs two system calls, one when it begins and one when it ends, besides the
/// loop's own, and two blocks of the slab.
class borrowed_descriptor {
 public:
  borrowed_descriptor(event_loop& target, int fd) noexcept;
  borrowed_descriptor(const borrowed_descriptor&) = delete;
  borrowed_descriptor& operator=(const borrowed_descriptor&) = delete;
  ~borrowed_descriptor() { release(); }

  /// Waits for at least one of the events of `interest`, an error or, as poll(2) defines it, a
  /// hang-up, and returns those that have come. The task must be started while the object exists.
  /// Throws std::invalid_argument for no event.
  [[nodiscard]] task<readiness> wait(readiness interest);
  /// Wait until a read (or accept) would not block, a write (or connect) would not block, or
  /// something exceptional has come; the results tell also an error and a hang-up, which end each
  /// of these waits.
  [[nodiscard]] task<readiness> wait_readable() { return wait(readiness::readable); }
  [[nodiscard]] task<readiness> wait_writable() { return wait(readiness::writable); }
  [[nodiscard]] task<readiness> wait_priority() { return wait(readiness::priority); }

  /// Ends all waits with io::errc::closed, and refuses later ones: the loop does not know the
  /// descriptor any more when the call returns. Idempotent.
  void release() noexcept;
  /// Returns the descriptor; -1 after release().
  [[nodiscard]] int fd() const noexcept { return watch_.has_value() ? watch_->fd() : -1; }
  [[nodiscard]] event_loop& loop() const noexcept { return loop_; }

 private:
  struct waiter : intrusive_list_node {
    waiter(borrowed_descriptor& descriptor, readiness events) noexcept
        : owner(descriptor), interest(events) {}
    waiter(const waiter&) = delete;
    ~waiter() { leave(); }
    /// Ends the wait, unless the descriptor has ended it.
    void leave() noexcept;

    borrowed_descriptor& owner;  // alive while the waiter is in its list
    readiness interest;
    std::optional<completion<readiness>> end_callback;
  };

  void add(waiter& entry, completion<readiness> result);
  void report(readiness events);
  void update_watch();
  void end_waits(std::error_code reason) noexcept;

  event_loop& loop_;
  std::optional<fd_watch> watch_;  // empty after release()
  intrusive_list<waiter> waiters_;
};

}  // namespace gyre::io
