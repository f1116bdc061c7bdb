// SPDX-License-Identifier: Apache-2.0
// websocket_send: the awaiter of websocket::send().
#pragma once

#include <gyre/http/websocket_message.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>

namespace gyre::http::detail {

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): it is not deleted by its base
class websocket_core;

/// Awaited, sends a message. Has a coroutine frame only if it has to wait.
///
/// Thread-safety: the loop's thread.
/// Lifetime: the socket and the bytes must outlive the await.
class [[nodiscard]] websocket_send final {
 public:
  websocket_send(websocket_core& core, websocket_message message) noexcept
      : core_(&core), message_(message) {}

  static constexpr bool executor_affine = true;
  bool await_ready();
  template <gyre::detail::has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> coroutine) {
    return rest_.await_suspend(coroutine);
  }
  void await_resume() {
    if (has_rest_) rest_.await_resume();
  }

 private:
  websocket_core* core_;
  websocket_message message_;
  task<> rest_;  // waits while the peer does not read
  bool has_rest_ = false;
};

}  // namespace gyre::http::detail
