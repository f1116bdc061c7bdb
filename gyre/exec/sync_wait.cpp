// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/sync_wait.hpp>

#include <system_error>

namespace gyre::detail {

waiting_loop::waiting_loop(event_loop& loop, inplace_stop_token stop_when) noexcept : loop_(loop) {
  where = &loop;
  stop = stop_when;
  finished = &tell;
}

std::coroutine_handle<> waiting_loop::tell(task_context& self) noexcept {
  auto& context = static_cast<waiting_loop&>(self);
  if (context.where == &context.loop_) {
    context.done_ = true;
  } else {
    context.loop_.post(static_cast<operation&>(context.when_elsewhere_));
  }
  return std::noop_coroutine();
}

void waiting_loop::run_until_done() {
  while (!done_) {
    if (!loop_.run_once() && !done_) {
      throw std::system_error(std::make_error_code(std::errc::operation_canceled),
                              "gyre::sync_wait: the loop was stopped");
    }
  }
}

}  // namespace gyre::detail
