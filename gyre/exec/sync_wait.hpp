// SPDX-License-Identifier: Apache-2.0
// sync_wait: runs a loop until a coroutine has finished, as in main() of a program of coroutines.
//
//     gyre::loop loop;
//     gyre::sync_wait(loop, serve(loop));
#pragma once

#include <gyre/exec/detail/run_claim.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/recorded_task.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/sync_wait.hpp>

#include <memory>
#include <optional>
#include <source_location>
#include <thread>
#include <utility>

namespace gyre {

namespace detail {

/// The context of the coroutine that sync_wait() runs a loop for.
class waiting_loop : task_context {
 public:
  waiting_loop(event_loop& loop, inplace_stop_token stop_token, std::source_location place);

  template <class T>
  T run(task_state<T>& task) {
    task.start(*this);
    run_until_done();
    return take_outside(task);
  }

 private:
  static std::coroutine_handle<> finish(task_context& self) noexcept;
  void run_until_done();

  event_loop& loop_;
  const std::thread::id thread_ = std::this_thread::get_id();
  inplace_stop_source stop_;
  // The stop callback is empty after the end of the coroutine.
  std::optional<inplace_stop_callback<request_stop_of>> on_stop_;
  run_claim claim_;  // held while the coroutine starts, too, which is before the loop runs
  bool is_done_ = false;
  done_operation when_elsewhere_{is_done_};
  std::unique_ptr<live_task_entry> live_entry_;
};

}  // namespace detail

/// Runs the loop `target` on the calling thread until `awaitable` has completed, and returns its
/// result or rethrows its exception. The awaitable starts at once, before other tasks of the loop.
///
/// A stop of the awaitable is requested by `stop`, by event_loop::stop(), even before the call, and
/// by an exception that run() would throw. The loop still runs until the awaitable has ended. After
/// event_loop::stop() the loop then stays stopped; after an exception, sync_wait() rethrows it.
///
/// Lifetime: the loop may be destroyed once sync_wait() has returned: its destructor waits for
/// threads that are still in post(operation&), but not for those in post(callable).
/// Errors: std::logic_error when called by a task of the loop, or while another thread runs the
/// loop; the awaitable has then not started. To wait for a coroutine on a loop of another thread,
/// use sync_wait(on(loop, …)). A coroutine that a stop ends throws gyre::operation_cancelled (no
/// std::exception), a cancelled I/O request std::errc::operation_canceled; for both, sync_wait()
/// throws std::system_error (std::errc::operation_canceled).
template <awaitable Awaitable>
  requires detail::well_awaited<Awaitable>
decltype(auto) sync_wait(event_loop& target, Awaitable&& awaitable, inplace_stop_token stop = {},
                         std::source_location place = std::source_location::current()) {
  // The registration must outlive the coroutines, even abandoned ones.
  detail::waiting_loop registration(target, stop, place);
  auto task = as_task(std::forward<Awaitable>(awaitable));
  return registration.run(detail::task_access::state(task));
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
void sync_wait(event_loop& target, detail::misused_awaitable explained,
               inplace_stop_token stop = {});

}  // namespace gyre
