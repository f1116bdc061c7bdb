// SPDX-License-Identifier: Apache-2.0
// oneshot: a channel for a single value, from one sender to one receiver, such as a reply.
//
//     auto [reply, answer] = gyre::make_oneshot<int>();
//     co_await jobs.emplace(question, std::move(reply));  // elsewhere: next->reply.send(42)
//
//     std::optional<int> received = co_await answer.receive();  // nullopt: dropped without a reply
#pragma once

#include <gyre/sync/channel_error.hpp>
#include <gyre/sync/detail/channel_core.hpp>
#include <gyre/sync/detail/oneshot_core.hpp>
#include <gyre/sync/detail/single_wait.hpp>
#include <gyre/sync/detail/subscribers.hpp>
#include <gyre/task/detail/cancelled.hpp>

#include <concepts>
#include <exception>
#include <expected>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

namespace gyre {

template <class T>
class oneshot_sender;
template <class T>
class oneshot_receiver;

/// Both ends of a oneshot.
template <class T = void>
struct oneshot {
  oneshot_sender<T> sender;
  oneshot_receiver<T> receiver;
};

/// Makes the two ends of a oneshot for a T, which may be void. Throws std::bad_alloc.
template <class T = void>
[[nodiscard]] oneshot<T> make_oneshot();

/// The sending end of a oneshot. Sending consumes the sender. If the sender is dropped without
/// sending, the receiver gets nullopt.
///
/// Thread-safety: both ends may be used at once, each by one coroutine at a time, on any thread. T
/// is moved while a lock is held: its move constructor and destructor must not use the oneshot.
/// Lifetime: independent of the receiver; but must not be moved, sent or destroyed while a
/// coroutine waits in closed().
/// Errors: std::logic_error for an empty sender.
/// Complexity: no allocation.
template <class T = void>
class oneshot_sender {
  static_assert(std::is_void_v<T> || detail::channel_value<T>,
                "T moves without failing, and is aligned to 16 bytes at most");
  using core_type = detail::oneshot_core<T>;

 public:
  using value_type = T;

  /// Makes an empty sender.
  oneshot_sender() noexcept = default;
  oneshot_sender(oneshot_sender&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  oneshot_sender& operator=(oneshot_sender other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~oneshot_sender() {
    if (core_ != nullptr) core_->retire_sender([](core_type&) noexcept {});
  }

  /// Sends `value`. Returns false if the receiver is gone; `value` is then not moved from.
  template <class U = T>
    requires std::same_as<U, T> && std::is_object_v<U>
  bool send(std::type_identity_t<U>&& value) {
    return leave([&](core_type& core) noexcept { core.store(std::move(value)); });
  }
  template <class U = T>
    requires std::same_as<U, T> && std::copy_constructible<U>
  bool send(const std::type_identity_t<U>& value) {
    return send(U(value));
  }
  /// Ends the receiver's wait. Returns false if the receiver is gone.
  bool send()
    requires std::is_void_v<T>
  {
    return leave([](core_type& core) noexcept { core.store({}); });
  }
  /// Makes the receiver's wait throw `error`, which must not be null. Returns false if the receiver
  /// is gone. A gyre::operation_cancelled arrives as std::system_error
  /// (std::errc::operation_canceled), because the receiver itself was not asked to stop.
  bool send_error(std::exception_ptr error) {
    std::exception_ptr passed_on = detail::error_for_others(std::move(error));
    return leave([&](core_type& core) noexcept { core.store_error(std::move(passed_on)); });
  }

  /// Returns whether the sender can send; false once it has sent.
  [[nodiscard]] bool valid() const noexcept { return core_ != nullptr; }
  /// Returns whether the receiver is gone, so that a value would not be received.
  [[nodiscard]] bool is_closed() const { return core().receiver_left(); }
  /// Awaited, waits until the receiver is gone, so that the value is no longer needed.
  [[nodiscard]] auto closed() {
    return detail::single_wait<detail::oneshot_closed_case<T>>(std::in_place, waited_case());
  }

 private:
  friend oneshot<T> make_oneshot<T>();
  friend detail::oneshot_access;

  explicit oneshot_sender(core_type* core) noexcept : core_(core) {}
  core_type& core() const {
    if (core_ == nullptr) [[unlikely]]
      detail::throw_empty_oneshot_sender();
    return *core_;
  }
  auto waited_case() const { return detail::oneshot_closed_case<T>(core()); }
  template <class Store>
  bool leave(Store store) {
    core_type& left = core();
    core_ = nullptr;
    return left.retire_sender(store);
  }

  core_type* core_ = nullptr;
};

/// The receiving end of a oneshot. Once the receiver is destroyed, send() returns false and
/// closed() completes.
///
/// Thread-safety: both ends may be used at once, each by one coroutine at a time, on any thread.
/// Lifetime: independent of the sender. Must not be moved or destroyed while it is waited on; the
/// waiting coroutine may be destroyed, on its executor, unless it has been woken.
/// Errors: std::logic_error for an empty receiver; the error of send_error(); operation_cancelled
/// when a wait is asked to stop, and a value that was or will be sent can still be received.
/// Complexity: no allocation.
template <class T = void>
class oneshot_receiver {
  using core_type = detail::oneshot_core<T>;

 public:
  using value_type = T;

  /// Makes an empty receiver.
  oneshot_receiver() noexcept = default;
  oneshot_receiver(oneshot_receiver&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)) {}
  oneshot_receiver& operator=(oneshot_receiver other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~oneshot_receiver() {
    if (core_ != nullptr) core_->retire_receiver();
  }

  /// Awaited, waits for the value and returns it as a std::optional<T>; nullopt when the sender was
  /// dropped without sending, or the value was received before. If T is void, the result is a bool,
  /// which is false instead of nullopt.
  [[nodiscard]] auto receive() {
    return detail::single_wait<detail::receiver_case<oneshot_receiver>>(std::in_place,
                                                                        waited_case());
  }
  /// Returns the value without waiting; or the status empty, or closed where receive() returns
  /// nullopt.
  [[nodiscard]] std::expected<T, channel_status> try_receive() {
    core_type& state = core();
    const std::lock_guard hold(state.mutex());
    if (!ready()) return std::unexpected(channel_status::empty);
    auto value = state.take();
    if (!value) return std::unexpected(channel_status::closed);
    if constexpr (std::is_void_v<T>) {
      return {};
    } else {
      return std::move(*value);
    }
  }

  /// Returns whether the receiver belongs to a oneshot; false once it was moved from.
  [[nodiscard]] bool valid() const noexcept { return core_ != nullptr; }

 private:
  friend oneshot<T> make_oneshot<T>();
  friend detail::receiver_case<oneshot_receiver>;
  friend detail::oneshot_access;

  explicit oneshot_receiver(core_type* core) noexcept : core_(core) {}
  core_type& core() const {
    if (core_ == nullptr) [[unlikely]]
      detail::throw_empty_oneshot_receiver();
    return *core_;
  }
  auto waited_case() {
    static_cast<void>(core());
    return detail::receiver_case<oneshot_receiver>(*this);
  }

  static constexpr bool takes_without_lock = true;
  [[nodiscard]] bool must_wait() const noexcept { return !core_->sender_left(); }
  // Returns whether the wait is over. Called with the lock of the core held.
  [[nodiscard]] bool ready() const noexcept { return core_->is_closed(); }
  // Takes the result of the wait. Called after must_wait() has returned false, or ready() true.
  auto next() {
    if constexpr (std::is_void_v<T>) {
      return core_->take().has_value();
    } else {
      return core_->take();
    }
  }

  core_type* core_ = nullptr;
};

/// Complexity: one allocation, from the slab.
template <class T>
oneshot<T> make_oneshot() {
  auto* const core = new detail::oneshot_core<T>();
  return {.sender = oneshot_sender<T>(core), .receiver = oneshot_receiver<T>(core)};
}

/// A case of select(): receives from `receiver`, with the result of its receive().
template <class T>
[[nodiscard]] auto on_receive(oneshot_receiver<T>& receiver) {
  return detail::oneshot_access::case_of(receiver);
}

/// A case of select(): waits like `sender`'s closed(). The result is std::monostate.
template <class T>
[[nodiscard]] auto on_closed(oneshot_sender<T>& sender) {
  return detail::oneshot_access::case_of(sender);
}

}  // namespace gyre
