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

/// A callback on the loop's thread whenever a borrowed descriptor is ready, until stopped. A
/// descriptor has one watch per loop, for reading and writing together.
///
/// Thread-safety: all members belong to the loop's thread; while none runs the loop, to one thread
/// at a time.
/// Lifetime: the loop must outlive the watch, and the watch must be stopped before its descriptor
/// is closed: otherwise, while a duplicate keeps the file open, events still reach the watch's
/// memory. The destructor stops. The function may stop, change and destroy any watch, its own
/// included; a stopped watch is not called any more, not even for events that came before.
class fd_watch {
 public:
  using function = move_only_function<void(readiness)>;

  /// `callback` gets the events, and error and hang_up unasked; its exceptions go to on_exception.
  fd_watch(event_loop& target, int fd, function callback) noexcept
      : loop_(target), node_(*this, fd), callback_(std::move(callback)) {}
  // Explains wrong arguments: see base/detail/misuse.hpp.
  fd_watch(event_loop& target, int fd, detail::misused_watch_callback explained);
  fd_watch& operator=(fd_watch&&) = delete;
  ~fd_watch() { stop(); }

  /// Begins to report, or changes the interest and ends a pause. One system call. Errors:
  /// std::system_error: EPERM for a regular file, or a device that is always ready such as
  /// /dev/null; EEXIST if the loop already watches the descriptor; EBADF.
  void start(readiness interest, trigger mode = trigger::level) {
    active() ? loop_.rewatch(node_, interest, mode) : loop_.watch(node_, interest, mode);
  }
  /// Stops the reports; true if the watch was active.
  bool stop() noexcept {
    const bool was_active = active();
    loop_.unwatch(node_);
    node_.set_pause(readiness_operation::pause::none);
    return was_active;
  }
  /// Holds the reports of an active watch back until resume() or start(), also of events that came
  /// before. The descriptor remains the watch's, and no other may watch it: so the watch must be
  /// stopped before the descriptor is closed, as if it were not paused. Complexity: no system call;
  /// the first event of a pause costs the loop a wake-up and one call, later ones nothing.
  void pause() noexcept {
    if (active() && !paused()) node_.set_pause(readiness_operation::pause::paused);
  }
  /// Reports again, with the interest and the trigger of start(), also what became ready during the
  /// pause and still is. Complexity: one system call if there was an event meanwhile, else none.
  /// Errors: std::system_error where the descriptor was closed (EBADF, ENOENT); the watch remains
  /// paused then.
  void resume() {
    if (node_.pause_state() == readiness_operation::pause::withheld) {
      loop_.rewatch(node_, node_.interest(), node_.mode());
    }
    node_.set_pause(readiness_operation::pause::none);
  }
  bool paused() const noexcept { return node_.pause_state() != readiness_operation::pause::none; }
  /// Whether it was started and not stopped, paused or not.
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
