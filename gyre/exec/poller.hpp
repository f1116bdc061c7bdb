// SPDX-License-Identifier: Apache-2.0
// poller: waits for events on behalf of a loop, and reads the clock. The library gyre::io
// implements it on epoll and io_uring; tests implement it with virtual time.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/exec/detail/io_slice.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace gyre::io {
class backend;
}  // namespace gyre::io

namespace gyre {

/// A set of events of a descriptor; combine with `|`.
enum class readiness : std::uint32_t {
  none = 0,
  readable = 1u << 0,
  writable = 1u << 1,
  /// An error is pending (read it with SO_ERROR or the next call). Reported even if not requested.
  error = 1u << 2,
  /// The peer has closed or, with interest in `readable`, only half-closed. Reported even if not
  /// requested.
  hang_up = 1u << 3,
  /// Something exceptional has come (POLLPRI of poll(2)): urgent data of TCP, a change of a file of
  /// sysfs, a packet's status of a pseudo-terminal. Reported only if requested.
  priority = 1u << 4,
};

constexpr readiness operator|(readiness a, readiness b) noexcept {
  return static_cast<readiness>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr readiness operator&(readiness a, readiness b) noexcept {
  return static_cast<readiness>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}
/// Returns whether `set` contains any of `events`.
constexpr bool contains(readiness set, readiness events) noexcept {
  return (set & events) != readiness::none;
}

/// The trigger of readiness reports: `level` on every turn while readiness lasts; `edge` once when
/// readiness arises, after which the user must read or write until EAGAIN.
enum class trigger { level, edge };

/// An intrusive node for watching a descriptor. Programs use fd_watch. Lifetime: until unwatch().
class readiness_operation : public intrusive_list_node {
 public:
  using function = void (*)(readiness_operation&, readiness);

  readiness_operation(int descriptor, function report) noexcept
      : fd_(descriptor), complete_(report) {}
  readiness_operation& operator=(readiness_operation&&) = delete;

  int fd() const noexcept { return fd_; }
  readiness interest() const noexcept { return interest_; }
  trigger mode() const noexcept { return mode_; }
  /// Called by the poller: stores the arguments of watch(), to watch again after a fork.
  void set_interest(readiness interest, trigger mode) noexcept {
    interest_ = interest;
    mode_ = mode;
    pause_ = pause::none;
  }
  /// Whether reports are paused, and whether the poller has withheld a report since the pause
  /// began, so that rewatch() is needed to get reports again.
  enum class pause : std::uint8_t { none, paused, withheld };
  pause pause_state() const noexcept { return pause_; }
  /// Called by the poller: stores whether reports are paused.
  void set_pause(pause state) noexcept { pause_ = state; }
  /// Called by the poller: reports events. The function may unwatch and destroy the operation.
  void complete(readiness events) { complete_(*this, events); }
  /// Returns the address of the code that complete() calls, for reports.
  std::uintptr_t code() const noexcept { return reinterpret_cast<std::uintptr_t>(complete_); }

 protected:
  ~readiness_operation() = default;

 private:
  int fd_;
  readiness interest_ = readiness::none;
  trigger mode_ = trigger::level;
  pause pause_ = pause::none;
  function complete_;
};

/// The strategy by which one loop waits for events and reads the time.
///
/// Thread-safety: wake(), now(), io() and name() may be called from any thread, the other members
/// by the thread that runs the loop; while no thread runs it, by one thread at a time.
class poller {
 public:
  poller() = default;
  poller& operator=(poller&&) = delete;
  virtual ~poller() = default;
  /// Returns the present time, on the clock of wait()'s deadlines. Monotonic.
  virtual steady_time now() const noexcept = 0;
  /// Waits until there are events, wake() is called, a signal handler has run, or `deadline` is
  /// reached; returns the number of events for complete(). `steady_time::min()` does not wait,
  /// `steady_time::max()` waits without limit. Throws std::system_error.
  virtual std::size_t wait(steady_time deadline) = 0;
  /// Reports the events of the last wait to their operations; adds 1 to `completions` before each
  /// call. Exceptions of an operation's function pass through. After an exception, or if
  /// is_time_over(), the next complete() reports the remaining events, even if wait() is called
  /// first.
  virtual void complete(std::size_t& completions) = 0;
  /// Makes the current wait(), or else the next one, return. Async-signal-safe.
  virtual void wake() noexcept = 0;
  /// Begins to report readiness, until unwatch(). One operation per descriptor: throws
  /// std::system_error (EEXIST for a second one, EPERM for a regular file, EBADF).
  virtual void watch(readiness_operation& op, readiness interest, trigger mode) = 0;
  /// Changes interest or trigger of a watched operation. Throws std::system_error.
  virtual void rewatch(readiness_operation& op, readiness interest, trigger mode) = 0;
  /// Ends the reports, also of events that the last wait found. Call it before closing the
  /// descriptor.
  virtual void unwatch(readiness_operation& op) noexcept = 0;
  /// Returns the number of operations and handles that can have events.
  virtual std::size_t watched() const noexcept = 0;
  /// Returns the backend for reads, writes and the like (gyre/io/backend.hpp); null if the poller
  /// only reports readiness or time.
  virtual io::backend* io() noexcept { return nullptr; }
  /// Called when the calling thread returns from run(), perhaps for the last time: suspends the
  /// kernel's work for that thread. The next run resumes the work.
  virtual void leave() noexcept {}
  /// Called in a forked child: replaces the kernel objects, which still belong to the parent, by
  /// new ones that watch the same operations. Throws std::system_error.
  virtual void after_fork() = 0;
  /// Returns "epoll" or "uring", for metrics and logs.
  virtual const char* name() const noexcept = 0;
  /// Sets the loop's time limit for complete(), or null for none.
  void set_slice(detail::io_slice* slice) noexcept { slice_ = slice; }
  detail::io_slice* slice() const noexcept { return slice_; }

 protected:
  /// Returns whether complete() must leave the remaining events to the next turn. Called after each
  /// operation.
  bool is_time_over() noexcept {
    if (slice_ == nullptr) return false;
    if (!slice_->count_completion()) [[likely]]
      return slice_->is_over();
    return slice_->check_time(now());
  }

 private:
  detail::io_slice* slice_ = nullptr;
};

/// The kernel interface of a loop's I/O.
enum class io_interface : std::uint8_t {
  /// The interface named by the environment variable GYRE_IO (auto, epoll or uring). By default,
  /// io_uring if the kernel has multishot receive and deferred task running (Linux 6.1), which make
  /// io_uring faster than epoll; else epoll.
  automatic,
  epoll,
  /// io_uring; if it is not available, epoll, after one line on stderr.
  uring,
};

/// Makes a poller. Defined in the library gyre::io: a program that makes loops links it. Throws
/// std::system_error (EMFILE, ENFILE, ENOMEM), and std::invalid_argument if GYRE_IO is read and has
/// another value.
std::unique_ptr<poller> make_poller(io_interface interface = io_interface::automatic);

}  // namespace gyre
