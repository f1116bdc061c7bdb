// SPDX-License-Identifier: Apache-2.0
// How a loop waits and how it knows the time. The loop knows only this interface; io/ implements it
// (on epoll and on io_uring), and a test implements it with virtual time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/exec/detail/io_slice.hpp>

namespace gyre::io {
class backend;
}  // namespace gyre::io

namespace gyre {

/// What can be ready on a descriptor. A set: combine with `|`.
enum class readiness : std::uint32_t {
  none = 0,
  readable = 1u << 0,
  writable = 1u << 1,
  /// Reported without being asked for: an error is pending (read it with SO_ERROR or the next call).
  error = 1u << 2,
  /// Reported without being asked for: the other side has closed.
  hang_up = 1u << 3,
};

constexpr readiness operator|(readiness a, readiness b) noexcept {
  return static_cast<readiness>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr readiness operator&(readiness a, readiness b) noexcept {
  return static_cast<readiness>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}
/// Whether `set` contains any of `wanted`.
constexpr bool contains(readiness set, readiness wanted) noexcept {
  return (set & wanted) != readiness::none;
}

/// When readiness is reported: `level` on every turn while it lasts, `edge` once when it arises
/// (the user must then read or write until EAGAIN).
enum class trigger { level, edge };

/// A standing interest in a descriptor, embedded in whoever has it. See fd_watch for the public form.
class readiness_operation : public intrusive_list_node {
 public:
  using function = void (*)(readiness_operation&, readiness);

  readiness_operation(int descriptor, function report) noexcept
      : fd_(descriptor), complete_(report) {}
  readiness_operation(const readiness_operation&) = delete;
  readiness_operation& operator=(const readiness_operation&) = delete;

  int fd() const noexcept { return fd_; }
  readiness interest() const noexcept { return interest_; }
  trigger how() const noexcept { return how_; }
  /// Poller: what it watches for, so that it can be watched again after a fork.
  void remember(readiness wanted, trigger reported) noexcept {
    interest_ = wanted;
    how_ = reported;
  }
  /// Poller: reports what is ready. May end the operation, and destroy it.
  void complete(readiness ready) { complete_(*this, ready); }

 protected:
  ~readiness_operation() = default;

 private:
  int fd_;
  readiness interest_ = readiness::none;
  trigger how_ = trigger::level;
  function complete_;
};

/// Waits for one loop. All but wake() is called by the thread that runs the loop (or by its owner
/// while no thread runs it).
class poller {
 public:
  poller() = default;
  poller(const poller&) = delete;
  poller& operator=(const poller&) = delete;
  virtual ~poller() = default;

  /// The present, in the time that this poller's waits pass in. Monotonic. Any thread.
  virtual steady_time now() const noexcept = 0;

  /// Waits until something is ready, wake() is called, a signal handler ran, or `deadline` is
  /// reached; returns how much there is for complete() to do. `steady_time::min()` never waits,
  /// `steady_time::max()` waits without end. Throws std::system_error.
  virtual std::size_t wait(steady_time deadline) = 0;

  /// Completes what the last wait found, and adds each operation to `completed` before it calls its
  /// function. An exception of the function passes through; the next call completes the rest, also of
  /// what is_time_over() has left.
  virtual void complete(std::size_t& completed) = 0;

  /// Makes the present wait, or else the next one, return. Any thread; async-signal-safe.
  virtual void wake() noexcept = 0;

  /// Begins to report readiness, until unwatch(). One operation per descriptor: throws
  /// std::system_error (EEXIST for a second one, EPERM for a regular file, EBADF).
  virtual void watch(readiness_operation& op, readiness interest, trigger how) = 0;
  /// Changes interest or trigger of a watched operation. Throws std::system_error.
  virtual void rewatch(readiness_operation& op, readiness interest, trigger how) = 0;
  /// Ends it: it is not reported again, not even if it was found ready in the wait that is under
  /// way. Call it before closing the descriptor.
  virtual void unwatch(readiness_operation& op) noexcept = 0;
  /// Operations and handles that it waits for.
  virtual std::size_t watched() const noexcept = 0;

  /// What carries out reads, writes and the like for this loop, if this poller can: null for one that
  /// only tells readiness or time. The interface is the room io's, gyre/io/backend.hpp.
  virtual io::backend* io() noexcept { return nullptr; }

  /// The thread that ran the loop leaves it, perhaps for ever: ends what the kernel does on its behalf.
  /// When the loop is run again, that goes on.
  virtual void leave() noexcept {}

  /// In a forked child: leaves the parent's kernel objects to the parent and makes new ones with
  /// the same operations watched. Throws std::system_error.
  virtual void after_fork() = 0;

  /// "epoll" or "uring", for metrics and logs.
  virtual const char* name() const noexcept = 0;

  /// What bounds the time that complete() takes, or null. The loop's; of a poller that stands on
  /// another one, to be handed on.
  void set_slice(detail::io_slice* slice) noexcept { slice_ = slice; }
  detail::io_slice* slice() const noexcept { return slice_; }

 protected:
  /// To be asked between two completions: whether complete() must leave the rest to the next turn.
  bool is_time_over() noexcept { return slice_ != nullptr && slice_->is_over(); }

 private:
  detail::io_slice* slice_ = nullptr;
};

/// Which of the kernel's interfaces a loop does its I/O with.
enum class io_interface : std::uint8_t {
  /// What the environment's GYRE_IO says (auto, epoll or uring), and without that io_uring where the
  /// kernel has what makes it the faster (multishot receive and deferred task running, Linux 6.1).
  automatic,
  epoll,
  /// io_uring; where that cannot be had, for whatever reason, epoll, after one line on stderr.
  uring,
};

/// A poller for a loop. Defined in io/, the room that knows the backends: a program that makes loops
/// links gyre::io. Throws std::system_error (EMFILE, ENFILE, ENOMEM), and std::invalid_argument if
/// GYRE_IO is asked for and says something else.
std::unique_ptr<poller> make_poller(io_interface wanted = io_interface::automatic);

}  // namespace gyre
