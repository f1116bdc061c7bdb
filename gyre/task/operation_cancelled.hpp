// SPDX-License-Identifier: Apache-2.0
// operation_cancelled: thrown by a wait in a coroutine that was asked to stop.
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

/// Thrown by every wait, yield() included, that ended early or did not begin because the coroutine
/// was asked to stop. schedule() and resume_on() are no waits, so that clean-up can go where it
/// belongs. Has no base class: `catch (const std::exception&)` and as_expected() let it pass.
///
/// Let it pass, so that destructors clean up, and end `catch (...)` with `throw;`. For clean-up
/// that waits see finally() and shielded(). A coroutine that swallows it meets it again in the next
/// wait. After 100 times waits yield to other work of the executor before they throw; after 100,000
/// times the program is terminated, with a message and, if recorded, an async_backtrace.
///
/// Errors: only for the coroutine's own stop. A wait that is ended otherwise, by closing its socket
/// for instance, throws std::system_error (std::errc::operation_canceled), and so do sync_wait(),
/// spawn_future(), spawn_options::on_error and stop_when(), which carry the end of a stopped
/// coroutine to code that was not asked to stop; with_timeout() throws std::errc::timed_out.
class operation_cancelled final {
 public:
  /// A sentence for logs.
  static constexpr const char* what() noexcept { return "the coroutine was asked to stop"; }
};

}  // namespace gyre
