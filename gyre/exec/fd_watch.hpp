// SPDX-License-Identifier: Apache-2.0
// Being told when a descriptor is ready.
//
//     gyre::fd_watch input(loop, STDIN_FILENO, [&](gyre::readiness) { read_some(); });
//     input.start(gyre::readiness::readable);
#pragma once

#include <gyre/base/detail/callback.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/poller.hpp>

namespace gyre {

/// Calls a function on the loop's thread whenever a descriptor is ready, until stopped.
///
/// Does not own the descriptor: stop the watch before closing it. One watch per descriptor and loop,
/// for reading and writing together. All members belong to the loop's thread (or the loop's owner
/// while no thread runs it). It must not outlive its loop, does not move, and is stopped by its
/// destructor. The function may stop, change and destroy any watch, its own included; a watch that
/// was stopped is not called any more, not even for what was ready before.
class fd_watch {
 public:
  using function = move_only_function<void(readiness)>;

  /// `ready` is called with what is ready, which can include error and hang_up unasked. What it
  /// throws goes to the loop's on_exception.
  fd_watch(event_loop& loop, int fd, function ready) noexcept;
  fd_watch(const fd_watch&) = delete;
  fd_watch& operator=(const fd_watch&) = delete;
  ~fd_watch();

  /// Begins, or changes what is reported. One system call. Throws std::system_error: EPERM for a
  /// regular file, EEXIST if the loop watches the descriptor already, EBADF.
  void start(readiness interest, trigger how = trigger::level);
  /// Ends it; true if it was active.
  bool stop() noexcept;
  bool active() const noexcept { return operation_.is_linked(); }
  int fd() const noexcept { return operation_.fd(); }

 private:
  struct operation : readiness_operation {
    operation(fd_watch& owner, int descriptor) noexcept
        : readiness_operation(descriptor, &fd_watch::complete), self(&owner) {}
    fd_watch* self;
  };

  static void complete(readiness_operation& completed, readiness ready);

  event_loop& loop_;
  operation operation_;
  detail::callback<readiness> ready_;
};

}  // namespace gyre
