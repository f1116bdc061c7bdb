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
#include <gyre/sync/detail/ring_buffer.hpp>
#include <gyre/sync/detail/segment_buffer.hpp>
#include <gyre/sync/detail/select_wait.hpp>
#include <gyre/sync/detail/single_wait.hpp>
#include <gyre/sync/detail/subscribers.hpp>

#include <cassert>
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

/// The result of an attempt to send or receive without waiting.
enum class channel_status : unsigned char {
  ok,
  full,    ///< not sent: there is no room, and no receiver waits
  empty,   ///< nothing received: there is no value, and no sender waits
  closed,  ///< not sent, or nothing is left to receive
};

namespace detail {

/// Values that move without failing, and may live in a coroutine's frame, which compilers do not
/// align beyond 16 bytes.
template <class T>
concept channel_value = std::is_object_v<T> && std::is_nothrow_move_constructible_v<T> &&
                        std::is_nothrow_destructible_v<T> && alignof(T) <= 16;

template <class T>
struct receive_node : select_node {
  std::optional<T> value;
};
template <class T>
struct send_node : select_node {
  T* source;
};

/// Receivers wait only while there are no values, senders only while there is no room.
template <class T, class Buffer>
class channel_core : public subscribers {
 public:
  template <class... Arguments>
  explicit channel_core(Arguments... arguments) : buffer_(arguments...) {}
  ~channel_core() { assert(senders_.empty() && "destroyed while waited for"); }

  // With the lock held:

  channel_status push(T& value, select_wait*& woken) noexcept {
    if (is_closed()) [[unlikely]]
      return channel_status::closed;
    if (!receivers_.empty()) {
      if (select_node* const first = receivers_.claim_first()) {
        static_cast<receive_node<T>&>(*first).value.emplace(std::move(value));
        woken = first->wait;
        return channel_status::ok;
      }
    }
    if (buffer_.full()) return channel_status::full;
    buffer_.push(std::move(value));
    return channel_status::ok;
  }

  channel_status pop(std::optional<T>& to, select_wait*& woken) noexcept {
    if (!buffer_.empty()) [[likely]] {
      to.emplace(std::move(buffer_.front()));
      buffer_.pop();
      if (select_node* const first = claim_sender(woken)) {
        buffer_.push(std::move(*static_cast<send_node<T>&>(*first).source));
      }
      return channel_status::ok;
    }
    if (select_node* const first = claim_sender(woken)) {  // of a channel without a buffer
      to.emplace(std::move(*static_cast<send_node<T>&>(*first).source));
      return channel_status::ok;
    }
    return is_closed() ? channel_status::closed : channel_status::empty;
  }

  void enlist_sender(send_node<T>& sender) noexcept { senders_.push_back(sender); }
  Buffer& buffer() noexcept { return buffer_; }

  // Without the lock:

  void close() noexcept { subscribers::close(&senders_); }
  channel_status try_push(T& value) noexcept {
    select_wait* woken = nullptr;
    lock_.lock();
    const channel_status status = push(value, woken);
    lock_.unlock();
    if (woken != nullptr) woken->wake();
    return status;
  }
  std::expected<T, channel_status> try_pop() noexcept {
    select_wait* woken = nullptr;
    std::optional<T> value;
    lock_.lock();
    const channel_status status = pop(value, woken);
    lock_.unlock();
    if (woken != nullptr) woken->wake();
    if (!value) return std::unexpected(status);
    return std::move(*value);
  }

  std::size_t size() const noexcept {
    const std::lock_guard hold(lock_);
    return buffer_.size();
  }
  std::size_t capacity() const noexcept { return buffer_.capacity(); }

 private:
  select_node* claim_sender(select_wait*& woken) noexcept {
    if (senders_.empty()) return nullptr;
    select_node* const first = senders_.claim_first();
    if (first != nullptr) woken = first->wait;
    return first;
  }

  select_queue senders_;
  Buffer buffer_;
};

/// The case of receiving from a channel.
template <class T, class Buffer>
class receive_case : public receive_node<T> {
 public:
  using result = std::optional<T>;
  explicit receive_case(channel_core<T, Buffer>& from) noexcept : from_(&from) {}

  spin_lock& lock() noexcept { return from_->lock(); }
  bool attempt(select_wait*& woken) noexcept {
    if (from_->pop(this->value, woken) == channel_status::empty) return false;
    this->ends_turn = from_->ends_turn();
    return true;
  }
  void enlist() noexcept { from_->enlist(*this); }
  static std::error_code error() noexcept { return {}; }
  std::optional<T> take() noexcept { return std::move(this->value); }

 private:
  channel_core<T, Buffer>* from_;
};

/// The case of sending its own value, or, if Source is T&, the one it refers to.
template <class T, class Buffer, class Source>
class send_case : public send_node<T> {
 public:
  using result = void;
  send_case(channel_core<T, Buffer>& to, Source&& value) noexcept
      : to_(&to), value_(std::forward<Source>(value)) {}

  spin_lock& lock() noexcept { return to_->lock(); }
  bool attempt(select_wait*& woken) noexcept {
    const channel_status status = to_->push(value_, woken);
    if (status == channel_status::full) return false;
    this->closed = status == channel_status::closed;
    this->ends_turn = to_->ends_turn();
    return true;
  }
  void enlist() noexcept {
    this->source = std::addressof(value_);
    to_->enlist_sender(*this);
  }
  std::error_code error() const noexcept {
    return this->closed ? make_error_code(channel_errc::closed) : std::error_code();
  }
  static void take() noexcept {}

 private:
  channel_core<T, Buffer>* to_;
  Source value_;
};

/// The members that all channels have.
template <class T, class Buffer>
class channel_interface {
  static_assert(channel_value<T>,
                "the values of a channel move without failing, and no reference is one: declare "
                "T(T&&) noexcept, or send a std::unique_ptr<T>");

 public:
  using value_type = T;

  /// Awaited, waits for a value and gives the oldest as a std::optional<T>; nullopt when the
  /// channel is closed and empty.
  [[nodiscard]] auto receive() noexcept {
    return single_wait<receive_case<T, Buffer>>(std::in_place, core_);
  }
  /// Gives the oldest value without waiting; or empty, or closed.
  [[nodiscard]] std::expected<T, channel_status> try_receive() noexcept { return core_.try_pop(); }

  /// Refuses all further sends, the waiting ones included. Idempotent.
  void close() noexcept { core_.close(); }
  [[nodiscard]] bool closed() const noexcept { return core_.closed(); }

  /// The number of values in the queue; those of waiting senders do not count.
  [[nodiscard]] std::size_t size() const noexcept { return core_.size(); }

 protected:
  template <class... Arguments>
  explicit channel_interface(Arguments... arguments) : core_(arguments...) {}

  channel_core<T, Buffer> core_;

 private:
  friend struct channel_access;
};

/// Access of select() to a channel's core.
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
/// A send or receive that need not wait takes place whether or not a stop was requested. A
/// coroutine that always finds values gives way to others after one in 256.
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
  /// As send(), for a value that is made as T(arguments…); also an aggregate.
  template <class... Arguments>
    requires(std::constructible_from<T, Arguments...> &&
             !(detail::unsafe_temporary<Arguments> || ...))
  [[nodiscard]] auto emplace(Arguments&&... arguments) noexcept(
      std::is_nothrow_constructible_v<T, Arguments...>) {
    return send_awaiter<T>(std::in_place, core_, T(std::forward<Arguments>(arguments)...));
  }
  // Explains wrong arguments: see base/detail/awaited_value.hpp.
  template <class... Arguments>
    requires(detail::unsafe_temporary<Arguments> || ...)
  GYRE_MISUSE(GYRE_UNSAFE_TEMPORARY)
  std::suspend_never emplace(Arguments&&... arguments) noexcept;
  /// As send(), but moves from `value`, which must outlive the wait, only when it is sent.
  [[nodiscard]] auto send_from(T& value) noexcept {
    return send_awaiter<T&>(std::in_place, core_, value);
  }
  /// Sends `value` without waiting: ok, full or closed. Moved from only if ok.
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
  /// Sends `value` unless the channel is closed; moved from only if ok. Throws std::bad_alloc.
  [[nodiscard]] channel_status try_send(T&& value) {
    for (;;) {
      const channel_status status = core_.try_push(value);
      if (status != channel_status::full) return status;
      auto room = std::make_unique<typename detail::segment_buffer<T>::segment>();
      const std::lock_guard hold(core_.lock());
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
