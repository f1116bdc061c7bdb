// SPDX-License-Identifier: Apache-2.0
// Values that every receiver sees.
//
//     gyre::broadcast<event> events(256);
//     gyre::broadcast_receiver<event> mine = events.subscribe();  // sees what is sent from here on
//     events.send(event{…});
//
//     while (auto next = co_await mine.receive()) {
//       if (next->missed != 0) log_gap(next->missed);
//       handle(next->value);
//     }
#pragma once

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/sync/channel.hpp>
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

/// A receiver's next item of a broadcast.
template <class T>
struct broadcast_value {
  T value;
  /// How many values were sent, and overwritten, between the last one it got and this one.
  std::uint64_t missed = 0;
};

namespace detail {

/// The newest values of a broadcast, numbered from 0 on.
template <class T>
class broadcast_core : public subscribers {
 public:
  explicit broadcast_core(std::size_t capacity) : values_(std::max<std::size_t>(capacity, 1)) {}

  channel_status send(T& value) noexcept {
    intrusive_queue<operation> woken;
    {
      const std::lock_guard hold(lock_);
      if (closed_) return channel_status::closed;
      if (values_.full()) values_.pop();
      values_.push(std::move(value));
      ++sent_;
      waiting_.claim_all(woken, false);
    }
    wake_all(woken);
    return channel_status::ok;
  }

  // With the lock held.
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] std::uint64_t oldest() const noexcept { return sent_ - values_.size(); }
  const T& at(std::uint64_t number) noexcept {
    return values_[static_cast<std::size_t>(number - oldest())];
  }

  [[nodiscard]] std::size_t capacity() const noexcept { return values_.capacity(); }

 private:
  ring_buffer<T> values_;
  std::uint64_t sent_ = 0;
};

}  // namespace detail

/// Sends each value to all receivers that have subscribed before. Keeps the newest `capacity`
/// values for those who have not seen them yet; sending never waits, and a receiver that falls
/// behind further is told how many it missed.
///
/// Closing: receivers get what they have not seen, then nullopt; sending is refused. Cost: one
/// allocation, here; sending wakes every receiver that waits, O(those). All members from any
/// thread. T is moved, and copied for receivers, while a lock is held: its constructors and
/// destructor must not use the broadcast, so make large values shared_ptr<const …>. The broadcast
/// must outlive its receivers.
template <class T>
class broadcast {
  static_assert(detail::channel_value<T> && std::copy_constructible<T>);

 public:
  using value_type = T;

  /// Keeps at least one value. Throws std::bad_alloc.
  explicit broadcast(std::size_t capacity) : core_(capacity) {}

  /// Sends `value`; if nobody has subscribed it is lost. Throws std::errc::broken_pipe if closed.
  void send(T value) {
    if (try_send(std::move(value)) != channel_status::ok)
      throw std::system_error(std::make_error_code(std::errc::broken_pipe));
  }
  /// The same, but returns closed; `value` is then not moved from.
  [[nodiscard]] channel_status try_send(T&& value) noexcept { return core_.send(value); }

  /// A receiver that sees what is sent from now on.
  [[nodiscard]] broadcast_receiver<T> subscribe() noexcept { return broadcast_receiver<T>(core_); }

  /// Ends it. Further calls do nothing.
  void close() noexcept { core_.close(); }
  [[nodiscard]] bool closed() const noexcept {
    const std::lock_guard hold(core_.lock());
    return core_.closed();
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return core_.capacity(); }

 private:
  mutable detail::broadcast_core<T> core_;
};

/// A position in the values of a broadcast. For one coroutine at a time; a copy goes its own way
/// from the same position. Must not be moved while it is waited on.
template <class T>
class broadcast_receiver {
 public:
  using value_type = T;
  using received = broadcast_value<T>;

  /// Awaited, gives the next value (a std::optional<broadcast_value<T>>), and waits while there is
  /// none; nullopt when the broadcast is closed and all was seen. If it was cancelled
  /// (operation_cancelled), or copying the value threw, nothing was passed over.
  [[nodiscard]] auto receive() noexcept {
    return detail::single_wait<detail::receiver_case<broadcast_receiver>>(std::in_place, *this);
  }
  /// The same without waiting: the next value, empty or closed.
  [[nodiscard]] std::expected<broadcast_value<T>, channel_status> try_receive() {
    const std::lock_guard hold(core_->lock());
    if (!ready()) return std::unexpected(channel_status::empty);
    std::optional<broadcast_value<T>> value = next();
    if (!value) return std::unexpected(channel_status::closed);
    return std::move(*value);
  }

  /// How many values it has not seen, of which it may have missed the oldest.
  [[nodiscard]] std::uint64_t pending() const noexcept {
    const std::lock_guard hold(core_->lock());
    return core_->sent() - seen_;
  }

 private:
  friend broadcast<T>;
  friend detail::receiver_case<broadcast_receiver>;

  explicit broadcast_receiver(detail::broadcast_core<T>& core) noexcept : core_(&core) {
    const std::lock_guard hold(core.lock());
    seen_ = core.sent();
  }

  // Both with the lock held.
  [[nodiscard]] bool ready() const noexcept { return seen_ != core_->sent() || core_->closed(); }
  std::optional<broadcast_value<T>> next() {
    if (seen_ == core_->sent()) return std::nullopt;
    const std::uint64_t number = std::max(seen_, core_->oldest());
    std::optional<broadcast_value<T>> value(
        std::in_place, broadcast_value<T>{.value = core_->at(number), .missed = number - seen_});
    seen_ = number + 1;
    return value;
  }

  detail::broadcast_core<T>* core_;
  std::uint64_t seen_;  // the number of the next value
};

/// For select(): receiving from `receiver`. Gives what its receive() gives.
template <class T>
[[nodiscard]] auto on_receive(broadcast_receiver<T>& receiver) noexcept {
  return detail::receiver_case(receiver);
}

}  // namespace gyre
