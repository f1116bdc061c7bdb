// SPDX-License-Identifier: Apache-2.0
// fd_watch: readiness notification for a file descriptor.
//
//     gyre::fd_watch input(loop, STDIN_FILENO, [&](gyre::readiness) { read_some(); });
//     input.start(gyre::readiness::readable);
//     input.pause();   // nothing is reported: no system call
//     input.resume();  // as before the pause: none either, unless something came meanwhile
#pragma once

#include <gyre/base/detail/callback.hpp>
#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/poller.hpp>

#include <utility>

namespace gyre {
namespace detail {

GYRE_MISUSED_CALLBACK(misused_watch_callback, "the callback of an fd_watch takes (gyre::readiness)",
                      void(readiness));

}  // namespace detail

/// Calls a function on the loop's thread whenever a borrowed descriptor is ready, until stopped. A
/// descriptor has one watch per loop, for reading and writing together.
///
/// Thread-safety: all members belong to the loop's thread; while no thread runs the loop, to one
/// thread at a time.
/// Lifetime: the loop must outlive the watch, and the watch must be stopped before its descriptor
/// is closed: otherwise, while a duplicate keeps the file open, events still reach the watch's
/// memory. The destructor stops. The function may stop, change and destroy any watch, its own
/// included; the function of a stopped watch is not called any more, not even for events that came
/// before.
class fd_watch {
 public:
  using function = move_only_function<void(readiness)>;

  /// `callback` gets the requested events, and always error and hang_up; its exceptions go to the
  /// loop's on_exception.
  fd_watch(event_loop& target, int fd, function callback) noexcept
      : loop_(target), node_(*this, fd), callback_(std::move(callback)) {}
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  fd_watch(event_loop& target, int fd, detail::misused_watch_callback explained);
  fd_watch& operator=(fd_watch&&) = delete;
  ~fd_watch() { stop(); }

  /// Begins the reports, or changes the interest and ends a pause. Complexity: one system call.
  /// Errors: std::system_error: EPERM for a regular file, or a device that is always ready such as
  /// /dev/null; EEXIST if the loop already watches the descriptor; EBADF.
  void start(readiness interest, trigger mode = trigger::level) {
    active() ? loop_.rewatch(node_, interest, mode) : loop_.watch(node_, interest, mode);
  }
  /// Stops the reports. Returns true if the watch was active.
  bool stop() noexcept {
    const bool was_active = active();
    loop_.unwatch(node_);
    node_.set_pause(readiness_operation::pause::none);
    return was_active;
  }
  /// Withholds the reports of an active watch until resume() or start(), also of events that came
  /// before. The watch stays registered: no other watch may use the descriptor, and the watch must
  /// still be stopped before the descriptor is closed. Complexity: no system call; the first event
  /// of a pause costs the loop a wake-up and one system call, later events nothing.
  void pause() noexcept {
    if (active() && !paused()) node_.set_pause(readiness_operation::pause::paused);
  }
  /// Ends the pause: reports again, with the interest and the trigger of start(), including
  /// readiness that arose during the pause and still lasts. Complexity: one system call if there
  /// was an event during the pause, else none.
  /// Errors: std::system_error if the descriptor was closed (EBADF, ENOENT); the watch then remains
  /// paused.
  void resume() {
    if (node_.pause_state() == readiness_operation::pause::withheld) {
      loop_.rewatch(node_, node_.interest(), node_.mode());
    }
    node_.set_pause(readiness_operation::pause::none);
  }
  bool paused() const noexcept { return node_.pause_state() != readiness_operation::pause::none; }
  /// Returns whether the watch was started and not stopped, paused or not.
  bool active() const noexcept { return node_.is_linked(); }
  int fd() const noexcept { return node_.fd(); }

 private:
  struct node : readiness_operation {
    node(fd_watch& owner, int descriptor) noexcept
        : readiness_operation(descriptor, &report), self(&owner) {}
    static void report(readiness_operation& operation, readiness events) {
      static_cast<node&>(operation).self->callback_(events);
    }
    fd_watch* self;
  };

  event_loop& loop_;
  node node_;
  detail::callback<readiness> callback_;
};

}  // namespace gyre
