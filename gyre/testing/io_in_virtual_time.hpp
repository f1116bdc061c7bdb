// SPDX-License-Identifier: Apache-2.0
// io_in_virtual_time: a loop in virtual time that serves descriptors: time passes only when nothing
// is ready, and then at once.
//
//     gyre::testing::io_in_virtual_time world;
//     auto [near, far] = gyre::net::socket_pair();
//     gyre::io::stream stream(world.loop, near.release(), gyre::io::handle_kind::socket);
//     auto reading = gyre::with_timeout(stream.receive(), 1h);
//     EXPECT_THROW(world.run(std::move(reading)), std::system_error);  // at once
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_options.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/stop_token.hpp>

#include <memory>
#include <utility>

namespace gyre::testing {

namespace detail {
class io_poller_in_virtual_time;
}  // namespace detail

/// A loop on epoll whose time is virtual: while a descriptor is ready or a task is posted, it
/// stands still; when the loop would wait, it jumps to the next deadline. So time limits of hours
/// take no time, and expire whatever the speed of the machine.
///
/// Both ends of a connection must be served by this loop, on Unix sockets, whose bytes arrive at
/// once: gyre cannot know of bytes on their way through a network, from another process or from
/// another thread. The time also stands still while io::blocking_pool() works, as for files. For
/// work of other threads see set_waiting_for_threads().
///
/// Thread-safety: as the loop; the other members belong to the thread that runs it.
/// Lifetime: as the loop.
/// Errors: the constructor throws std::system_error (EMFILE, ENFILE, ENOMEM).
class io_in_virtual_time {
 public:
  explicit io_in_virtual_time(loop_options options = {});
  io_in_virtual_time(const io_in_virtual_time&) = delete;
  io_in_virtual_time& operator=(const io_in_virtual_time&) = delete;
  ~io_in_virtual_time();

  /// Runs `work` like sync_wait(loop, work, stop). If the loop would wait for ever, or a year of
  /// virtual time has passed, throws std::logic_error after it has requested `work` to stop. Work
  /// that ignores the stop blocks the thread.
  template <class Awaitable>
  decltype(auto) run(Awaitable&& work, inplace_stop_token stop = {}) {
    const deadlock_report reports(*this);
    return sync_wait(loop, std::forward<Awaitable>(work), stop);
  }
  /// Runs the loop until nothing is ready and io::blocking_pool() is idle; time stands still.
  void settle();
  /// Advances the time by `length`, running the timers that expire on the way.
  void advance(duration length);
  /// Sets whether the loop waits in real time when nothing is ready, instead of moving on to the
  /// next deadline: while threads of the program work that will post to the loop. Off at first.
  void set_waiting_for_threads(bool waits) noexcept;

  [[nodiscard]] steady_time now() const noexcept { return loop.now(); }

 private:
  class deadlock_report {
   public:
    explicit deadlock_report(io_in_virtual_time& world) noexcept;
    deadlock_report(const deadlock_report&) = delete;
    deadlock_report& operator=(const deadlock_report&) = delete;
    ~deadlock_report();

   private:
    io_in_virtual_time& world_;
  };

  io_in_virtual_time(loop_options options,
                     std::unique_ptr<detail::io_poller_in_virtual_time> poller);

  detail::io_poller_in_virtual_time& poller_;  // owned by the loop

 public:
  gyre::loop loop;
};

}  // namespace gyre::testing
