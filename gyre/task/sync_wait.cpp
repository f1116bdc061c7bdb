// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/sync_wait.hpp>

namespace gyre::detail {

waiting_thread::waiting_thread(inplace_stop_token stop_when) noexcept {
  where = &executor_;
  stop = stop_when;
  finished = &tell;
}

std::coroutine_handle<> waiting_thread::tell(task_context& self) noexcept {
  auto& thread = static_cast<waiting_thread&>(self);
  // Not a question of thread.where: a foreign awaitable may resume coroutines where it likes.
  if (thread.executor_.running_here()) {
    thread.done_ = true;
  } else {
    thread.executor_.post(thread.when_elsewhere_);
  }
  return std::noop_coroutine();
}

}  // namespace gyre::detail
