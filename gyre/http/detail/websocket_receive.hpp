// SPDX-License-Identifier: Apache-2.0
// websocket_receive: the awaiter of websocket::receive().
#pragma once

#include <gyre/http/websocket_message.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/stoppable_wait.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <cstdint>
#include <optional>

namespace gyre::http::detail {

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): it is not deleted by its base
class websocket_core;
/// The size of what a receive returns: a whole message, or a piece of one.
enum class receiving : std::uint8_t { messages, pieces };

/// Awaited, receives a message, or nothing once the socket was closed. Holds no coroutine frame
/// while it waits for a server's connection.
///
/// Thread-safety: the loop's thread.
/// Lifetime: the socket must outlive the await.
class [[nodiscard]] websocket_receive final : gyre::detail::stoppable_wait {
 public:
  websocket_receive(websocket_core& core, receiving mode) noexcept : core_(&core), mode_(mode) {}
  // The copied receive, `other`, must not have been awaited.
  websocket_receive(const websocket_receive& other) noexcept
      : stoppable_wait(), core_(other.core_), mode_(other.mode_) {}
  websocket_receive& operator=(const websocket_receive&) = delete;
  ~websocket_receive();

  static constexpr bool executor_affine = true;
  bool await_ready();
  template <gyre::detail::has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> coroutine) {
    if (begin_task()) return task_.await_suspend(coroutine);
    const task_context& context = gyre::detail::context_of(coroutine);
    if (begin_unshared(coroutine, context)) return gyre::detail::transfer_to(std::noop_coroutine());
    const bool waits = wait(coroutine, context);
    return gyre::detail::transfer_to(waits ? std::noop_coroutine()
                                           : std::coroutine_handle<>(coroutine));
  }
  std::optional<websocket_message> await_resume();

  /// Called by the socket when the receive has ended. May destroy this object.
  void complete() noexcept;
  /// Called by the socket before complete() in place of the stop callback that a wait without one
  /// lacks: the receive fails as one that was stopped.
  void note_stop() noexcept {
    if (unshared_ != nullptr) is_cancelled_ = true;
  }

 private:
  bool begin_task();
  bool begin_unshared(std::coroutine_handle<> coroutine, const task_context& context) noexcept;
  bool wait(std::coroutine_handle<> coroutine, const task_context& context) noexcept;
  bool start() noexcept override;
  bool cancel() noexcept override;

  websocket_core* core_;
  task<> task_;  // moves the bytes, if the transport does not
  // The coroutine, if only the loop's thread ends the wait; else null.
  std::coroutine_handle<> unshared_ = nullptr;
  const receiving mode_;
  bool has_begun_ = false;
  bool has_task_ = false;
  bool is_cancelled_ = false;
};

}  // namespace gyre::http::detail
