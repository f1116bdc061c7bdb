// SPDX-License-Identifier: Apache-2.0
// broadcast: a queue of values that every receiver sees.
//
//     gyre::broadcast<event> events(256);
//     gyre::broadcast_receiver<event> receiver = events.subscribe();  // sees later values
//     events.send(event{…});
//
//     while (auto next = co_await receiver.receive()) {
//       if (next->missed != 0) log_gap(next->missed);
//       handle(next->value);
//     }
#pragma once

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/sync/channel_error.hpp>
#include <gyre/sync/detail/ring_buffer.hpp>
#include <gyre/sync/detail/single_wait.hpp>
#include <gyre/sync/detail/subscribers.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

namespace gyre {

template <class T>
class broadcast_receiver;

/// A value from a broadcast, for one receiver.
template <class T>
struct broadcast_value {
  T value;
  /// The number of values that were overwritten before this receiver got them.
  std::uint64_t missed = 0;
};

namespace detail {

/// The newest values of a broadcast, numbered from 0 on.
template <class T>
class broadcast_core : public subscribers {
 public:
  explicit broadcast_core(std::size_t capacity) : values_(std::max<std::size_t>(capacity, 1)) {}

  channel_status send(T& value) noexcept {
    intrusive_queue<operation> ended_waits;
    {
      const std::lock_guard hold(lock_);
      if (is_closed()) return channel_status::closed;
      if (values_.full()) values_.pop();
      values_.push(std::move(value));
      ++sent_count_;
      receivers_.claim_all(ended_waits, false);
    }
    wake_all(ended_waits);
    return channel_status::ok;
  }

  // The functions below, up to at(), are called with the lock held.
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_count_; }
  [[nodiscard]] std::uint64_t oldest() const noexcept { return sent_count_ - values_.size(); }
  const T& at(std::uint64_t number) noexcept {
    return values_[static_cast<std::size_t>(number - oldest())];
  }

  [[nodiscard]] std::size_t capacity() const noexcept { return values_.capacity(); }

 private:
  ring_buffer<T> values_;
  std::uint64_t sent_count_ = 0;
};

}  // namespace detail

/// Sends each value to all present receivers. Sending never waits: the newest `capacity` values are
/// kept, and a receiver that is slower than that learns how many values it missed. After close(),
/// receivers get the values that they have not seen, then nullopt.
///
/// Thread-safety: every member may be called from any thread. T is moved and copied while a lock is
/// held: its constructors and destructor must not use the broadcast, and large values should be
/// shared_ptr<const …>.
/// Lifetime: must outlive its receivers.
/// Complexity: one allocation, by the constructor; a send is O(waiting receivers).
template <class T>
class broadcast {
  static_assert(detail::channel_value<T> && std::copy_constructible<T>,
                "the values of a broadcast are copied, and move without failing: declare T(T&&) "
                "noexcept, or send a std::shared_ptr<const T>");

 public:
  using value_type = T;

  /// Makes a broadcast that keeps the newest `capacity` values, at least one. Throws
  /// std::bad_alloc.
  explicit broadcast(std::size_t capacity) : core_(capacity) {}

  /// Sends `value` to all present receivers. Throws std::system_error (channel_errc::closed).
  void send(T value) {
    if (try_send(std::move(value)) != channel_status::ok)
      throw std::system_error(channel_errc::closed);
  }
  /// Like send(), but returns closed instead of throwing; `value` is then not moved from.
  [[nodiscard]] channel_status try_send(T&& value) noexcept { return core_.send(value); }

  /// Makes a receiver of the values that are sent from now on.
  [[nodiscard]] broadcast_receiver<T> subscribe() noexcept { return broadcast_receiver<T>(core_); }

  /// Refuses all further sends. Idempotent.
  void close() noexcept { core_.close(); }
  [[nodiscard]] bool closed() const noexcept { return core_.closed(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return core_.capacity(); }

 private:
  detail::broadcast_core<T> core_;
};

/// A position in the values of a broadcast; a copy advances independently.
///
/// Thread-safety: one coroutine at a time, on any thread.
/// Lifetime: the broadcast must outlive it. Must not be moved while it is waited on.
template <class T>
class broadcast_receiver {
 public:
  using value_type = T;

  /// Awaited, waits for the next value and gives a std::optional<broadcast_value<T>>; nullopt when
  /// the broadcast is closed and all values were seen. After an error (operation_cancelled, or an
  /// exception of T's copy constructor) the next receive() returns the value.
  [[nodiscard]] auto receive() noexcept {
    return detail::single_wait<detail::receiver_case<broadcast_receiver>>(std::in_place, *this);
  }
  /// Returns the next value without waiting; or the status empty or closed.
  [[nodiscard]] std::expected<broadcast_value<T>, channel_status> try_receive() {
    const std::lock_guard hold(core_->mutex());
    if (!ready()) return std::unexpected(channel_status::empty);
    std::optional<broadcast_value<T>> value = next();
    if (!value) return std::unexpected(channel_status::closed);
    return std::move(*value);
  }

  /// Returns the number of values that this receiver has not seen; the oldest may have been
  /// overwritten.
  [[nodiscard]] std::uint64_t pending() const noexcept {
    const std::lock_guard hold(core_->mutex());
    return core_->sent() - next_number_;
  }

 private:
  friend broadcast<T>;
  friend detail::receiver_case<broadcast_receiver>;

  explicit broadcast_receiver(detail::broadcast_core<T>& core) noexcept : core_(&core) {
    const std::lock_guard hold(core.mutex());
    next_number_ = core.sent();
  }

  // ready() and next() are called with the lock held.
  [[nodiscard]] bool ready() const noexcept {
    return next_number_ != core_->sent() || core_->is_closed();
  }
  std::optional<broadcast_value<T>> next() {
    if (next_number_ == core_->sent()) return std::nullopt;
    const std::uint64_t number = std::max(next_number_, core_->oldest());
    std::optional<broadcast_value<T>> value(
        std::in_place,
        broadcast_value<T>{.value = core_->at(number), .missed = number - next_number_});
    next_number_ = number + 1;
    return value;
  }

  detail::broadcast_core<T>* core_;
  std::uint64_t next_number_;  // the number of the next value to receive
};

/// A case of select(): receives from `receiver`, with the result of its receive().
template <class T>
[[nodiscard]] auto on_receive(broadcast_receiver<T>& receiver) noexcept {
  return detail::receiver_case(receiver);
}

}  // namespace gyre
