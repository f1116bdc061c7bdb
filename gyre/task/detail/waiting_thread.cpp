// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/waiting_thread.hpp>

namespace gyre::detail {

waiting_thread::waiting_thread(inplace_stop_token stop_when, std::source_location place)
    : live_entry_(entry_if_asked(executor_, "sync_wait", place)) {
  stop = deadlock_.follow(stop_when, *this);
  where = &executor_;
  finished = &finish;
}

std::coroutine_handle<> waiting_thread::finish(task_context& self) noexcept {
  auto& thread = static_cast<waiting_thread&>(self);
  if (thread.deadlock_.take_announcement(thread)) return std::noop_coroutine();
  // The thread is not compared, because a foreign awaitable may resume coroutines on any thread.
  if (thread.executor_.running_here()) {
    thread.is_done_ = true;
  } else {
    thread.executor_.post(thread.end_elsewhere_);
  }
  return std::noop_coroutine();
}

void waiting_thread::release::operator()(waiting_thread* thread) const noexcept {
  if (thread->deadlock_.has_suspended()) {
    thread->deadlock_.unfollow();
    thread->live_entry_.reset();
    thread->executor_.retire();
  } else {
    delete thread;
  }
}

}  // namespace gyre::detail
