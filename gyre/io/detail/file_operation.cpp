// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/file_operation.hpp>

#include <gyre/io/backend.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <cerrno>
#include <new>

namespace gyre::io::detail {
namespace {

// Returns the loop that the coroutine that runs now on `executor` may use, or null.
event_loop* loop_of(executor& executor) noexcept {
  event_loop* const running_loop = event_loop::current();
  if (&executor == running_loop || &executor == &inline_executor()) return running_loop;
  // The executor may be a loop that does not run yet, or one whose task runs another loop.
  auto* const loop = dynamic_cast<event_loop*>(&executor);
  return loop != nullptr && (running_loop == nullptr || loop->in_loop_thread()) ? loop : nullptr;
}

}  // namespace

loop_files files_for(const file_operation_options& options, executor& executor) noexcept {
  if (options.pool != nullptr || !options.suits_ring) return {};
  event_loop* const loop = loop_of(executor);
  backend* const io = loop != nullptr ? loop->io() : nullptr;
  file_service* const files = io != nullptr ? io->files() : nullptr;
  if (files == nullptr || !files->can(options.kind)) return {};
  return {loop, files};
}

bool ring_operation::begin(std::coroutine_handle<> coroutine, inplace_stop_token stop) {
  coroutine_ = coroutine;
  if (make_calls(steps_.begin())) return false;
  if (stop.stop_possible()) stop_callback_.emplace(stop, on_stop{this});
  return true;
}

// Returns whether all calls have been made; if not, one is under way.
bool ring_operation::make_calls(file_steps::next call) noexcept {
  while (call) {
    command = *call;
    const std::optional<result> outcome =
        is_stopping_ ? result::failure(ECANCELED) : service_.start(*this);
    if (!outcome) return false;
    call = next_after(*outcome);
  }
  return true;
}

file_steps::next ring_operation::next_after(result outcome) noexcept {
  const bool is_interrupted =
      outcome.error_number() == EINTR && command.kind != file_call_kind::close;
  return is_interrupted ? file_steps::next(command) : steps_.advance(outcome);
}

void ring_operation::on_completion(file_call& call, result outcome) {
  auto& self = static_cast<ring_operation&>(call);
  if (!self.make_calls(self.next_after(outcome))) return;
  self.disarm_stop();
  gyre::detail::resume(self.coroutine_);
}

// Posts a call to the loop that cancels the operation. A stop callback calls this on any thread.
void ring_operation::stop() noexcept try {
  stop_target_ = std::make_shared<ring_operation*>(this);
  loop_.post([target = stop_target_] {
    if (*target == nullptr) return;
    (*target)->is_stopping_ = true;
    (*target)->service_.request_cancel(**target);
  });
} catch (const std::bad_alloc&) {
  return;  // without memory for the posted call, the operation runs to its end
}

void ring_operation::disarm_stop() noexcept {
  stop_callback_.reset();  // the reset waits for a stop callback that runs on another thread
  if (stop_target_ != nullptr) *stop_target_ = nullptr;
}

ring_operation::~ring_operation() {
  if (!is_linked()) return;
  disarm_stop();
  // The outcome may be a descriptor, whose owner is the steps.
  if (const std::optional<result> outcome = service_.cancel(*this)) {
    static_cast<void>(steps_.advance(*outcome));
  }
}

}  // namespace gyre::io::detail
