// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/sync_wait.hpp>

#include <gyre/task/detail/live_tasks.hpp>

#include <cstddef>
#include <cstdio>
#include <string>

namespace gyre::detail {

waiting_thread::waiting_thread(inplace_stop_token stop_when) noexcept {
#if GYRE_ASYNC_BACKTRACE
  on_stop_.emplace(stop_when, request_stop_of{&end_all_});
  stop = end_all_.get_token();
#else
  stop = stop_when;
#endif
  where = &executor_;
  finished = &finish;
}

std::coroutine_handle<> waiting_thread::finish(task_context& self) noexcept {
  auto& thread = static_cast<waiting_thread&>(self);
  // Not a question of thread.where: a foreign awaitable may resume coroutines where it likes.
  if (thread.executor_.running_here()) {
    thread.done_ = true;
  } else {
    thread.executor_.post(thread.when_elsewhere_);
  }
  return std::noop_coroutine();
}

#if GYRE_ASYNC_BACKTRACE
void waiting_thread::end_deadlock(task_end& work) {
  const std::string report =
      "gyre: sync_wait() would wait for ever: all its coroutines wait, and the program has no "
      "other thread to wake one:\n" +
      live_tasks(*this).to_string();
  std::fputs(report.c_str(), stderr);
  end_all_.request_stop();
  const bool ended = executor_.run_until(done_) || cancel_remaining();
  if (!ended) {
    given_up_ = true;
    work.abandon();
    live_tasks(*this).never_resume();
  }
  throw_deadlock(report);
}

void waiting_thread::release::operator()(waiting_thread* ended) const noexcept {
  if (ended->given_up_) {
    ended->on_stop_.reset();
    ended->executor_.retire();
  } else {
    delete ended;
  }
}

// One after the other, since a task that is destroyed may wake others, with a mutex that it unlocks
// for instance. False if there are some left.
bool waiting_thread::cancel_remaining() {
  // Some may begin anew what was cancelled, again and again.
  std::size_t rounds = 2 * live_tasks(*this).size();
  while (rounds-- > 0 && live_tasks(*this).cancel_leaves(executor_)) {
    if (executor_.run_until(done_)) return true;
  }
  return false;
}
#endif

}  // namespace gyre::detail
