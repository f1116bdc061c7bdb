// SPDX-License-Identifier: Apache-2.0
// operation_cancelled: the exception of a wait in a coroutine that was asked to stop.
//
//     gyre::task<> serve(gyre::channel<job>& jobs) {
//       for (;;) {
//         try {
//           run(co_await jobs.receive());
//         } catch (const std::exception& failure) {
//           log(failure);  // a stop is not among these: it ends the loop
//         }
//       }
//     }
#pragma once

namespace gyre {

/// The exception of every wait that ended early or did not begin because the coroutine was asked to
/// stop. yield() is such a wait; schedule() and resume_on() are none, so that clean-up can go where
/// it belongs. Has no base class: `catch (const std::exception&)` and as_expected() let it pass.
///
/// Not std::errc::operation_canceled: that code says that a request was cancelled while its
/// coroutine may continue, for instance because another coroutine closed the socket. It also
/// reports a stopped coroutine's end to code that was not asked to stop: sync_wait(),
/// spawn_future(), stop_when() and spawn_options::on_error give a std::system_error with it.
///
/// Let the exception pass, so that destructors clean up, and end `catch (...)` with `throw;`. For
/// clean-up that awaits see finally() and shielded(). A coroutine that swallows the exception meets
/// it again in the next wait. From the 100th time on after one stop request, along a chain of
/// awaits, a wait lets other work of its executor run before it throws; at the 100,000th time the
/// program is terminated, with a message and, if recorded, an async_backtrace.
class operation_cancelled final {
 public:
  /// A sentence for logs.
  static constexpr const char* what() noexcept { return "the coroutine was asked to stop"; }
};

}  // namespace gyre
