// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/foreign_awaiter.hpp>

#include <gyre/task/executor.hpp>

namespace gyre::detail {

GYRE_MAKES_TAIL_CALLS void executor_return::resume_frame(void* resumed) {
  executor_return& self = frame::owner(resumed);
  executor& home = *self.frame_.context().where;
  if (!home.running_here()) return home.post(self);
  self.is_back();
  GYRE_TAIL_CALL return continue_with(self.waiting_.address());
}

void executor_return::destroy_frame(void* destroyed) noexcept {
  frame::owner(destroyed).waiting_.destroy();
}

void executor_return::run(operation& op) {
  auto& self = static_cast<executor_return&>(op);
  self.is_back();
  gyre::detail::resume(self.waiting_);
}

void executor_return::is_back() noexcept {
  // An awaiter that the foreign one awaits in turn took the stand-in for the coroutine.
  frame_.context().trace.innermost.set(
      &std::coroutine_handle<promise_base>::from_address(waiting_.address()).promise());
}

}  // namespace gyre::detail
