// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/foreign_awaiter.hpp>

#include <gyre/task/executor.hpp>

namespace gyre::detail {

GYRE_MAKES_TAIL_CALLS void executor_return::resume_frame(void* frame_address) {
  executor_return& self = frame::owner(frame_address);
  executor& target = *self.frame_.context().where;
  if (!target.running_here()) return target.post(self);
  self.note_return();
  GYRE_TAIL_CALL return continue_with(self.coroutine_.address());
}

void executor_return::destroy_frame(void* frame_address) noexcept {
  frame::owner(frame_address).coroutine_.destroy();
}

void executor_return::run(operation& op) {
  auto& self = static_cast<executor_return&>(op);
  self.note_return();
  gyre::detail::resume(self.coroutine_);
}

void executor_return::note_return() noexcept {
  // For backtraces the innermost coroutine is again the awaiting one, not the stand-in.
  frame_.context().trace.innermost.set(
      &std::coroutine_handle<promise_base>::from_address(coroutine_.address()).promise());
}

}  // namespace gyre::detail
