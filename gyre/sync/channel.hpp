// SPDX-License-Identifier: Apache-2.0
// channel, unbounded_channel: queues between coroutines; each value goes to one receiver.
//
//     gyre::channel<job> jobs(64);
//
//     co_await jobs.emplace(id, std::move(payload));  // waits while 64 are on their way
//
//     while (std::optional<job> next = co_await jobs.receive()) run(*next);  // until jobs.close()
//
// For a single value, such as the reply to a request that a channel carries, see oneshot.hpp.
#pragma once

#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/sync/channel_error.hpp>
#include <gyre/sync/detail/channel_core.hpp>
#include <gyre/sync/detail/ring_buffer.hpp>
#include <gyre/sync/detail/segment_buffer.hpp>
#include <gyre/sync/detail/single_wait.hpp>

#include <concepts>
#include <cstddef>
#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gyre {

namespace detail {

/// The members that all channels have.
template <class T, class Buffer>
class channel_interface {
  static_assert(channel_value<T>,
                "the values of a channel move without failing, and no reference is one: declare "
                "T(T&&) noexcept, or send a std::unique_ptr<T>");

 public:
  using value_type = T;

  /// Awaited, waits for a value and returns the oldest as a std::optional<T>; nullopt when the
  /// channel is closed and empty.
  [[nodiscard]] auto receive() noexcept {
    return single_wait<receive_case<T, Buffer>>(std::in_place, core_);
  }
  /// Returns the oldest value without waiting; or the status empty or closed.
  [[nodiscard]] std::expected<T, channel_status> try_receive() noexcept { return core_.try_pop(); }

  /// Refuses all further sends, the waiting ones included. Idempotent.
  void close() noexcept { core_.close(); }
  [[nodiscard]] bool closed() const noexcept { return core_.closed(); }

  /// Returns the number of values in the queue; the values of waiting senders do not count.
  [[nodiscard]] std::size_t size() const noexcept { return core_.size(); }

 protected:
  template <class... Arguments>
  explicit channel_interface(Arguments... arguments) : core_(arguments...) {}

  channel_core<T, Buffer> core_;

 private:
  friend struct channel_access;
};

/// Gives select() access to a channel's core.
struct channel_access {
  template <class T, class Buffer>
  static auto& core(channel_interface<T, Buffer>& channel) noexcept {
    return channel.core_;
  }
};

}  // namespace detail

/// A queue of at most `capacity` values from any number of senders to any number of receivers.
/// Values are received in the order in which they were sent, and the coroutine that has waited
/// longest is served first. After close(), receivers get the values that were sent, then nullopt.
///
/// A send or receive that need not wait completes even if a stop was requested. One in 256
/// operations that complete at once yields to other coroutines, so that no coroutine holds its
/// executor for ever.
///
/// Thread-safety: every member may be called from any thread. T is moved while a lock is held: its
/// move constructor and destructor must not throw, and must not use the channel.
/// Lifetime: must outlive its waits. A waiting coroutine may be destroyed, on its executor, unless
/// it has been woken.
/// Errors: a wait that is asked to stop throws operation_cancelled, and nothing was sent or
/// received; a send into a closed channel throws std::system_error (channel_errc::closed, which is
/// equal to std::errc::broken_pipe).
/// Complexity: one allocation, by the constructor. A send or receive holds a lock for some ten
/// instructions, and posts the coroutine that it wakes to its executor.
template <class T>
class channel : public detail::channel_interface<T, detail::ring_buffer<T>> {
  using base = detail::channel_interface<T, detail::ring_buffer<T>>;
  using base::core_;
  template <class Source>
  using send_awaiter = detail::single_wait<detail::send_case<T, detail::ring_buffer<T>, Source>>;

 public:
  /// With `capacity` 0 a sender waits for its receiver, which gets the value directly.
  /// Throws std::bad_alloc.
  explicit channel(std::size_t capacity) : base(capacity) {}

  /// Awaited, waits for room and sends `value`, which is destroyed if it was not sent.
  ///
  /// With GCC 12 an rvalue of an aggregate that has a destructor is refused: that compiler destroys
  /// the members of a `job{…}` in `co_await jobs.send(job{…})` twice. Use emplace(), or a variable
  /// with send_from().
  [[nodiscard]] auto send(detail::awaited_value<T> value) noexcept {
    return send_awaiter<T>(std::in_place, core_, static_cast<T&&>(std::move(value)));
  }
  /// Like send(), for a value that is constructed as T(arguments…), which may be an aggregate.
  template <class... Arguments>
    requires(std::constructible_from<T, Arguments...> &&
             !(detail::unsafe_temporary<Arguments> || ...))
  [[nodiscard]] auto emplace(Arguments&&... arguments) noexcept(
      std::is_nothrow_constructible_v<T, Arguments...>) {
    return send_awaiter<T>(std::in_place, core_, T(std::forward<Arguments>(arguments)...));
  }
  // This overload explains wrong arguments: see base/detail/awaited_value.hpp.
  template <class... Arguments>
    requires(detail::unsafe_temporary<Arguments> || ...)
  GYRE_MISUSE(GYRE_UNSAFE_TEMPORARY)
  std::suspend_never emplace(Arguments&&... arguments) noexcept;
  /// Like send(), but moves from `value`, which must outlive the wait, only when `value` is sent.
  [[nodiscard]] auto send_from(T& value) noexcept {
    return send_awaiter<T&>(std::in_place, core_, value);
  }
  /// Sends `value` without waiting; returns ok, full or closed. Moves from `value` only if ok.
  [[nodiscard]] channel_status try_send(T&& value) noexcept { return core_.try_push(value); }
  [[nodiscard]] channel_status try_send(const T& value)
    requires std::copy_constructible<T>
  {
    T copy(value);
    return core_.try_push(copy);
  }

  [[nodiscard]] std::size_t capacity() const noexcept { return core_.capacity(); }
};

/// A channel without a limit: sending never waits, so that callbacks and other code outside of
/// coroutines can send, and values take memory until they are received. Senders that may be faster
/// than the receivers for long should use channel<T>.
///
/// Thread-safety, Lifetime, Errors: as channel.
/// Complexity: allocates blocks of 2 KiB, or of eight values if those are larger, and frees them
/// when they are empty.
template <class T>
class unbounded_channel : public detail::channel_interface<T, detail::segment_buffer<T>> {
  using detail::channel_interface<T, detail::segment_buffer<T>>::core_;

 public:
  unbounded_channel() noexcept = default;

  /// Sends `value`. Throws std::system_error (channel_errc::closed); std::bad_alloc.
  void send(T value) {
    if (try_send(std::move(value)) != channel_status::ok)
      throw std::system_error(channel_errc::closed);
  }
  /// Sends `value` unless the channel is closed; moves from `value` only if ok. Throws
  /// std::bad_alloc.
  [[nodiscard]] channel_status try_send(T&& value) {
    for (;;) {
      const channel_status status = core_.try_push(value);
      if (status != channel_status::full) return status;
      auto room = std::make_unique<typename detail::segment_buffer<T>::segment>();
      const std::lock_guard hold(core_.mutex());
      if (core_.buffer().full()) core_.buffer().add_room(std::move(room));
    }
  }
  [[nodiscard]] channel_status try_send(const T& value)
    requires std::copy_constructible<T>
  {
    return try_send(T(value));
  }
};

}  // namespace gyre
