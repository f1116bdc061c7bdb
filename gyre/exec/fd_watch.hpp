// SPDX-License-Identifier: Apache-2.0
// fd_watch: readiness notification for a file descriptor.
//
//     gyre::fd_watch input(loop, STDIN_FILENO, [&](gyre::readiness) { read_some(); });
//     input.start(gyre::readiness::readable);
#pragma once

#include <gyre/base/detail/callback.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/poller.hpp>

namespace gyre {

/// Calls a function on the loop's thread whenever a descriptor is ready, until stopped. A
/// descriptor has one watch per loop, for reading and writing together.
///
/// Thread-safety: all members belong to the loop's thread, or to one other thread while none runs
/// the loop.
/// Lifetime: the loop must outlive the watch, and the watch be stopped before its descriptor is
/// closed. The destructor stops. The function may stop, change and destroy any watch, its own
/// included; a stopped watch is not called any more, not even for events that came before.
class fd_watch {
 public:
  using function = move_only_function<void(readiness)>;

  /// `callback` gets the events, error and hang_up always included. Its exceptions go to the loop's
  /// on_exception.
  fd_watch(event_loop& loop, int fd, function callback) noexcept;
  fd_watch(const fd_watch&) = delete;
  fd_watch& operator=(const fd_watch&) = delete;
  ~fd_watch();

  /// Begins to report, or changes the interest. One system call. Throws std::system_error: EPERM
  /// for a regular file, EEXIST if the loop already watches the descriptor, EBADF.
  void start(readiness interest, trigger mode = trigger::level);
  /// Stops the reports; true if the watch was active.
  bool stop() noexcept;
  bool active() const noexcept { return node_.is_linked(); }
  int fd() const noexcept { return node_.fd(); }

 private:
  struct node : readiness_operation {
    node(fd_watch& owner, int descriptor) noexcept
        : readiness_operation(descriptor, &fd_watch::complete), self(&owner) {}
    fd_watch* self;
  };

  static void complete(readiness_operation& operation, readiness events);

  event_loop& loop_;
  node node_;
  detail::callback<readiness> callback_;
};

}  // namespace gyre
