// SPDX-License-Identifier: Apache-2.0
// Queues between coroutines: a value that one sends another one receives.
//
//     gyre::channel<job> jobs(64);
//
//     co_await jobs.emplace(id, std::move(payload));  // waits while 64 are on their way
//
//     while (std::optional<job> next = co_await jobs.receive()) run(*next);  // until jobs.close()
#pragma once

#include <gyre/base/cache_line.hpp>
#include <gyre/sync/detail/ring_buffer.hpp>
#include <gyre/sync/detail/segment_buffer.hpp>
#include <gyre/sync/detail/select_wait.hpp>
#include <gyre/sync/detail/single_wait.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

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

/// Values that change hands without failing, and may live in a coroutine's frame, which compilers
/// do not align beyond 16 bytes.
template <class T>
concept channel_value = std::is_object_v<T> && std::is_nothrow_move_constructible_v<T> &&
                        std::is_nothrow_destructible_v<T> && alignof(T) <= 16;

/// The part of a channel that does not depend on the type of its values.
class channel_base {
 public:
  channel_base() = default;
  channel_base(const channel_base&) = delete;
  channel_base& operator=(const channel_base&) = delete;

  spin_lock& lock() noexcept { return lock_; }
  void close() noexcept;
  bool closed() const noexcept {
    const std::lock_guard hold(lock_);
    return closed_;
  }

 protected:
  ~channel_base() {
    assert(receivers_.empty() && senders_.empty() && "a channel was destroyed while waited for");
  }

  // Receivers wait only while there are no values, senders only while there is no room.
  mutable spin_lock lock_;
  bool closed_ = false;
  select_queue receivers_;
  select_queue senders_;
};

template <class T>
struct receive_node : select_node {
  std::optional<T> value;
};
template <class T>
struct send_node : select_node {
  T* source;
};

template <class T, class Buffer>
class receive_case;
template <class T, class Buffer, class Source>
class send_case;

template <class T, class Buffer>
class channel_core : public channel_base {
 public:
  template <class... Arguments>
  explicit channel_core(Arguments... arguments) : buffer_(arguments...) {}

  // The next five with the lock held.

  channel_status push(T& value, select_wait*& woken) noexcept {
    if (closed_) [[unlikely]]
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
    return closed_ ? channel_status::closed : channel_status::empty;
  }

  void enlist(receive_node<T>& receiver) noexcept { receivers_.push_back(receiver); }
  void enlist(send_node<T>& sender) noexcept { senders_.push_back(sender); }
  Buffer& buffer() noexcept { return buffer_; }

  // And these without.

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

  auto receiving() noexcept { return receive_case<T, Buffer>(*this); }
  template <class Source>
  auto sending(Source&& value) noexcept {
    return send_case<T, Buffer, Source>(*this, std::forward<Source>(value));
  }

 private:
  select_node* claim_sender(select_wait*& woken) noexcept {
    if (senders_.empty()) return nullptr;
    select_node* const first = senders_.claim_first();
    if (first != nullptr) woken = first->wait;
    return first;
  }

  Buffer buffer_;
};

/// Receiving from a channel.
template <class T, class Buffer>
class receive_case : public receive_node<T> {
 public:
  using result = std::optional<T>;
  explicit receive_case(channel_core<T, Buffer>& from) noexcept : from_(&from) {}

  spin_lock& lock() noexcept { return from_->lock(); }
  bool attempt(select_wait*& woken) noexcept {
    return from_->pop(this->value, woken) != channel_status::empty;
  }
  void enlist() noexcept { from_->enlist(*this); }
  static std::error_code error() noexcept { return {}; }
  std::optional<T> take() noexcept { return std::move(this->value); }

 private:
  channel_core<T, Buffer>* from_;
};

/// Sending into a channel: what it holds, or, if Source is T&, what it refers to.
template <class T, class Buffer, class Source>
class send_case : public send_node<T> {
 public:
  using result = void;
  send_case(channel_core<T, Buffer>& to, Source&& value) noexcept
      : to_(&to), value_(std::forward<Source>(value)) {}

  spin_lock& lock() noexcept { return to_->lock(); }
  bool attempt(select_wait*& woken) noexcept {
    const channel_status status = to_->push(value_, woken);
    this->closed = status == channel_status::closed;
    return status != channel_status::full;
  }
  void enlist() noexcept {
    this->source = std::addressof(value_);
    to_->enlist(*this);
  }
  std::error_code error() const noexcept {
    return this->closed ? std::make_error_code(std::errc::broken_pipe) : std::error_code();
  }
  static void take() noexcept {}

 private:
  channel_core<T, Buffer>* to_;
  Source value_;
};

struct channel_access;

}  // namespace detail

/// A queue of at most `capacity` values from any number of senders to any number of receivers, each
/// value to one of them.
///
/// Order: values are received in the order in which they were sent; who waits longest is served
/// first, and is handed its value or its room, so that nobody can come before it.
/// Closing: values that were sent are received, then receivers get nullopt; senders are refused.
/// Cancelling: a wait ends with operation_cancelled, and then nothing was sent or
/// received. A send or receive that need not wait takes place whether or not a stop was requested,
/// and goes on at once: a coroutine that always finds values should yield() now and then to let
/// others run.
/// Cost: one allocation, here; none per value or wait. A send or receive holds a lock for some ten
/// instructions, and one that lets another coroutine go on posts that to its executor.
///
/// All members from any thread. T is moved while the lock is held: its move constructor and
/// destructor must not throw and not use the channel. The channel must outlive who waits for it; a
/// coroutine that waits may be destroyed, on its executor, unless it was woken already.
template <class T>
class channel {
  static_assert(detail::channel_value<T>);
  using core = detail::channel_core<T, detail::ring_buffer<T>>;
  template <class Source>
  using send_awaiter = detail::single_wait<detail::send_case<T, detail::ring_buffer<T>, Source>>;

 public:
  using value_type = T;

  /// Without room (`capacity` 0) a value passes from hand to hand: a sender waits for its receiver.
  /// Throws std::bad_alloc.
  explicit channel(std::size_t capacity) : core_(capacity) {}

  /// Awaited, sends `value`, and waits while there is no room for it. A closed channel, also one
  /// that is closed meanwhile, throws std::errc::broken_pipe. What was not sent is destroyed.
  ///
  /// With GCC 12 do not make an aggregate within the call, as in `co_await jobs.send(job{…})`: that
  /// compiler destroys its members twice. Use emplace(), or a variable.
  [[nodiscard]] auto send(T value) noexcept {
    return send_awaiter<T>(std::in_place, core_, std::move(value));
  }
  /// The same with a value that is made of `arguments`, as T(arguments…); also an aggregate.
  template <class... Arguments>
    requires std::constructible_from<T, Arguments...>
  [[nodiscard]] auto emplace(Arguments&&... arguments) noexcept(
      std::is_nothrow_constructible_v<T, Arguments...>) {
    return send_awaiter<T>(std::in_place, core_, T(std::forward<Arguments>(arguments)...));
  }
  /// The same with a value that stays where it is, and is moved from only if it is sent: after an
  /// error it is still there. It must live until then.
  [[nodiscard]] auto send_from(T& value) noexcept {
    return send_awaiter<T&>(std::in_place, core_, value);
  }
  /// Sends `value` if that takes no waiting: ok, full or closed. Moved from only if ok.
  [[nodiscard]] channel_status try_send(T&& value) noexcept { return core_.try_push(value); }
  [[nodiscard]] channel_status try_send(const T& value)
    requires std::copy_constructible<T>
  {
    T copy(value);
    return core_.try_push(copy);
  }

  /// Awaited, gives the oldest value (a std::optional<T>), and waits while there is none; nullopt
  /// when the channel is closed and nothing is left in it.
  [[nodiscard]] auto receive() noexcept {
    return detail::single_wait<detail::receive_case<T, detail::ring_buffer<T>>>(std::in_place,
                                                                                core_);
  }
  /// The oldest value if there is one, else empty or closed.
  [[nodiscard]] std::expected<T, channel_status> try_receive() noexcept { return core_.try_pop(); }

  /// Refuses all sends from now on, also those that wait, and lets receivers have what was sent.
  /// Further calls do nothing.
  void close() noexcept { core_.close(); }
  [[nodiscard]] bool closed() const noexcept { return core_.closed(); }

  /// Values on their way; not those of senders that wait.
  [[nodiscard]] std::size_t size() const noexcept { return core_.size(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return core_.capacity(); }

 private:
  friend detail::channel_access;

  core core_;
};

/// The same without a limit: sending never waits, and values that nobody receives take memory. Who
/// may be fast for long should wait for channel<T> instead.
///
/// Cost: memory for values comes in blocks of 2 KiB or of eight values, and goes when they were
/// received. For the rest see channel.
template <class T>
class unbounded_channel {
  static_assert(detail::channel_value<T>);
  using buffer = detail::segment_buffer<T>;
  using core = detail::channel_core<T, buffer>;

 public:
  using value_type = T;

  unbounded_channel() noexcept = default;

  /// Sends `value`. Throws std::errc::broken_pipe if the channel is closed, std::bad_alloc.
  void send(T value) {
    if (try_send(std::move(value)) != channel_status::ok)
      throw std::system_error(std::make_error_code(std::errc::broken_pipe));
  }
  /// Sends `value` unless the channel is closed; moved from only if ok. Throws std::bad_alloc.
  [[nodiscard]] channel_status try_send(T&& value) {
    for (;;) {
      const channel_status status = core_.try_push(value);
      if (status != channel_status::full) return status;
      auto room = std::make_unique<typename buffer::segment>();
      const std::lock_guard hold(core_.lock());
      if (core_.buffer().full()) core_.buffer().add_room(std::move(room));
    }
  }
  [[nodiscard]] channel_status try_send(const T& value)
    requires std::copy_constructible<T>
  {
    return try_send(T(value));
  }

  /// As channel::receive().
  [[nodiscard]] auto receive() noexcept {
    return detail::single_wait<detail::receive_case<T, buffer>>(std::in_place, core_);
  }
  /// As channel::try_receive().
  [[nodiscard]] std::expected<T, channel_status> try_receive() noexcept { return core_.try_pop(); }

  /// As channel::close().
  void close() noexcept { core_.close(); }
  [[nodiscard]] bool closed() const noexcept { return core_.closed(); }
  /// Values on their way.
  [[nodiscard]] std::size_t size() const noexcept { return core_.size(); }

 private:
  friend detail::channel_access;

  core core_;
};

namespace detail {

/// How select() reaches into a channel.
struct channel_access {
  template <class Channel>
  static auto& core(Channel& channel) noexcept {
    return channel.core_;
  }
};

}  // namespace detail
}  // namespace gyre
