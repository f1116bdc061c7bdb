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

/// Thrown by every wait in a coroutine that was asked to stop: the wait ended early because of
/// that, or did not begin. A yield() is a wait; to go to another executor is none (schedule(),
/// resume_on()), so that a coroutine is where it wants to clean up. Has no base class, so that
/// `catch (const std::exception&)` lets it pass, as do as_expected() and catch clauses for
/// std::system_error.
///
/// Let it pass: it unwinds the coroutine, whose destructors clean up. Where `catch (...)` is
/// needed, end with `throw;`. For clean-up that has to wait see finally() and shielded(). A
/// coroutine that swallows it meets it again in the next wait. After 100 times the waits give way
/// to other work of the executor before they throw; after 100,000 times the program is terminated,
/// with a message and, where async_backtrace is on, with the place of the last wait.
///
/// Only a coroutine's own stop is told this way. A wait that is ended by somebody else, who closes
/// its socket for instance, throws std::system_error (std::errc::operation_canceled). So does
/// everything that carries the end of a stopped coroutine to code which was not asked to stop:
/// sync_wait(), spawn_future() and spawn_options::on_error, stop_when(), and with_timeout() as
/// std::errc::timed_out.
class operation_cancelled final {
 public:
  /// A sentence for logs.
  static constexpr const char* what() noexcept { return "the coroutine was asked to stop"; }
};

}  // namespace gyre
