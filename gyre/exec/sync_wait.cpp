// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/sync_wait.hpp>

#include <coroutine>
#include <exception>
#include <stdexcept>
#include <utility>

namespace gyre::detail {

waiting_loop::waiting_loop(event_loop& loop, inplace_stop_token stop_token,
                           std::source_location place)
    : loop_(loop),
      claim_(loop.run_,
             "gyre::sync_wait: another thread runs this loop; call sync_wait(on(loop, ...)) "
             "without the loop instead"),
      live_entry_(entry_if_asked(loop, "sync_wait", place)) {
  if (loop.in_loop_thread()) {
    throw std::logic_error("gyre::sync_wait: called by a task of the loop it would run");
  }
  where = &loop;
  if (stop_token.stop_possible()) {
    on_stop_.emplace(stop_token, request_stop_of{&stop_});
    announces_end = true;
  }
  stop = stop_.get_token();
  finished = &finish;
}

std::coroutine_handle<> waiting_loop::finish(task_context& self) noexcept {
  auto& context = static_cast<waiting_loop&>(self);
  if (std::exchange(context.announces_end, false)) {
    context.on_stop_.reset();
    return std::noop_coroutine();
  }
  // The thread is checked too, because a foreign awaitable may resume coroutines on any thread.
  if (context.where == &context.loop_ && context.thread_ == std::this_thread::get_id()) {
    context.is_done_ = true;
  } else {
    context.loop_.post(static_cast<operation&>(context.when_elsewhere_));
  }
  return std::noop_coroutine();
}

// The coroutine must not be left in the queue of a loop that does not run, so a loop that is
// stopped, or throws, continues to run until the coroutine has ended.
void waiting_loop::run_until_done() {
  bool was_stopped = false;
  std::exception_ptr error;
  while (!is_done_) {
    try {
      if (loop_.run_once() || is_done_) continue;
      was_stopped = true;
      loop_.restart();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
    stop_.request_stop();
  }
  if (was_stopped) loop_.stop();
  if (error) std::rethrow_exception(std::move(error));
}

}  // namespace gyre::detail
