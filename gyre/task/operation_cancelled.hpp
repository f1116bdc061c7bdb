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

/// The exception of every wait that ended early, or did not begin, because the coroutine was asked
/// to stop. yield() is such a wait; schedule() and resume_on() are not, so that clean-up can move
/// to the executor on which it must run. The class has no base class, so `catch (const
/// std::exception&)` and as_expected() let it pass.
///
/// std::errc::operation_canceled is different: it says that a request was cancelled while its
/// coroutine may continue, for instance because another coroutine closed the socket. That code also
/// reports the end of a stopped coroutine to code that was not itself asked to stop: sync_wait(),
/// spawn_future(), stop_when() and spawn_options::on_error report a std::system_error with it.
///
/// Let the exception pass, so that destructors clean up, and end `catch (...)` with `throw;`. For
/// clean-up that awaits see finally() and shielded(). If a coroutine swallows the exception, the
/// next wait throws it again. From the 100th time on after one stop request, along a chain of
/// awaits, a wait lets other work of its executor run before it throws; at the 100,000th time the
/// program is terminated, with a message and, if recorded, an async_backtrace.
class operation_cancelled final {
 public:
  /// Returns a sentence for logs.
  static constexpr const char* what() noexcept { return "the coroutine was asked to stop"; }
};

}  // namespace gyre
