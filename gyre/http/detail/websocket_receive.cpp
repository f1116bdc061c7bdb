// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_receive.hpp>

#include <gyre/exec/event_loop.hpp>
#include <gyre/http/detail/websocket_core.hpp>

#include <system_error>
#include <utility>

namespace gyre::http::detail {

websocket_receive::~websocket_receive() {
  if (abandon()) cancel();
  if (has_begun_) core_->abandon_receive();
}

bool websocket_receive::await_ready() {
  const bool has_ended = core_->begin_receive(mode_);
  has_begun_ = true;
  return has_ended;
}

// Starts a task that moves the bytes if the transport does not. Returns whether there is one.
bool websocket_receive::begin_task() {
  auto receiving = core_->await_receive(*this);
  if (!receiving) return false;
  task_ = std::move(*receiving);
  return has_task_ = true;
}

// Begins a wait without a stop callback, and without its atomic operations, if the socket itself
// ends the receive whenever the coroutine's stop is requested.
bool websocket_receive::begin_unshared(std::coroutine_handle<> coroutine,
                                       const task_context& context) noexcept {
  if (!core_->ends_before(context)) return false;
  set_context(context);
  unshared_ = coroutine;
  return true;
}

void websocket_receive::complete() noexcept {
  if (unshared_ == nullptr) return complete_event();
  gyre::detail::resume(unshared_);
}

bool websocket_receive::wait(std::coroutine_handle<> coroutine,
                             const task_context& context) noexcept {
  set_context(context);
  return begin(core_->loop(), coroutine, context);
}

bool websocket_receive::start() noexcept { return false; }

bool websocket_receive::cancel() noexcept {
  is_cancelled_ = true;
  if (std::exchange(has_begun_, false)) core_->abandon_receive();
  return true;
}

std::optional<websocket_message> websocket_receive::await_resume() {
  if (has_task_) {
    task_.await_resume();
  } else if (context() != nullptr) {
    end();
    if (is_cancelled_) {
      gyre::detail::throw_failure(std::make_error_code(std::errc::operation_canceled), context());
    }
  }
  has_begun_ = false;
  return core_->take_result();
}

}  // namespace gyre::http::detail
