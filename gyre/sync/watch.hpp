// SPDX-License-Identifier: Apache-2.0
// watch: a value whose receivers can wait for a change.
//
//     gyre::watch<settings> current(load());
//     gyre::watch_receiver<settings> receiver = current.subscribe();
//     current.set(load());
//
//     while (std::optional<settings> next = co_await receiver.changed()) apply(*next);
#pragma once

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/sync/detail/single_wait.hpp>
#include <gyre/sync/detail/subscribers.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

namespace gyre {

template <class T>
class watch_receiver;

namespace detail {

/// The value of a watch, and the number of its changes.
template <class T>
struct watch_core : subscribers {
  explicit watch_core(T&& initial) noexcept : value(std::move(initial)) {}

  /// Calls `change(value)`, and wakes the receivers.
  template <class Change>
  void apply(Change&& change) {
    intrusive_queue<operation> ended_waits;
    {
      const std::lock_guard hold(lock_);
      change(value);
      ++version;
      receivers_.claim_all(ended_waits, false);
    }
    wake_all(ended_waits);
  }
  T copy() {
    const std::lock_guard hold(lock_);
    return value;
  }

  // The members below are guarded by the lock.
  T value;
  std::uint64_t version = 0;
};

}  // namespace detail

/// A value that can be set and read, and whose receivers can wait for a change. Receivers see the
/// newest value, but may miss values in between; broadcast delivers every value. After close(),
/// receivers get a change that they have not seen, then nullopt; the value can still be read and
/// set.
///
/// Thread-safety: every member may be called from any thread. T is copied, and functions given to
/// modify() run, while a lock is held: they must be short and not use the watch, and large values
/// should be shared_ptr<const …>.
/// Lifetime: must outlive its receivers.
/// Complexity: no allocation; a change is O(waiting receivers).
template <class T>
class watch {
  static_assert(std::copy_constructible<T> && std::is_nothrow_move_constructible_v<T> &&
                    std::is_nothrow_swappable_v<T> && alignof(T) <= 16,
                "the value of a watch is copied, and moves without failing: declare T(T&&) "
                "noexcept, or use a std::shared_ptr<const T>");

 public:
  using value_type = T;

  explicit watch(T initial) noexcept : core_(std::move(initial)) {}

  /// Changes the value. An equal value is a change, too.
  void set(T value) noexcept {
    // The values are swapped, so that the old one is destroyed after the lock is released.
    core_.apply([&](T& current) { std::ranges::swap(current, value); });
  }
  /// Calls `change(T&)` to change the value. If `change` throws, no receiver is woken.
  template <std::invocable<T&> Change>
  void modify(Change&& change) {
    core_.apply([&](T& current) { std::invoke(change, current); });
  }
  /// Copies the present value.
  [[nodiscard]] T get() const { return core_.copy(); }

  /// Makes a receiver that has seen the present value.
  [[nodiscard]] watch_receiver<T> subscribe() noexcept { return watch_receiver<T>(core_); }

  /// Ends all waits for changes. Idempotent.
  void close() noexcept { core_.close(); }
  [[nodiscard]] bool closed() const noexcept { return core_.closed(); }

 private:
  mutable detail::watch_core<T> core_;
};

/// A reader of a watch, which knows the last change that it has seen; a copy advances
/// independently.
///
/// Thread-safety: one coroutine at a time, on any thread.
/// Lifetime: the watch must outlive it. Must not be moved while it is waited on.
template <class T>
class watch_receiver {
 public:
  using value_type = T;

  /// Awaited, waits for a change since this receiver saw the value last, and returns the newest one
  /// as a std::optional<T>; nullopt when the watch is closed and the last change was seen. After an
  /// error (operation_cancelled, or an exception of T's copy constructor) the change is unseen.
  [[nodiscard]] auto changed() noexcept {
    return detail::single_wait<detail::receiver_case<watch_receiver>>(std::in_place, *this);
  }
  /// Returns whether there is a change that this receiver has not seen.
  [[nodiscard]] bool has_changed() const noexcept {
    const std::lock_guard hold(core_->mutex());
    return seen_version_ != core_->version;
  }
  /// Copies the present value, which this receiver has then seen.
  [[nodiscard]] T get() {
    const std::lock_guard hold(core_->mutex());
    T value(core_->value);
    seen_version_ = core_->version;
    return value;
  }

 private:
  friend watch<T>;
  friend detail::receiver_case<watch_receiver>;

  explicit watch_receiver(detail::watch_core<T>& core) noexcept : core_(&core) {
    const std::lock_guard hold(core.mutex());
    seen_version_ = core.version;
  }

  // ready() and next() are called with the lock held.
  [[nodiscard]] bool ready() const noexcept {
    return seen_version_ != core_->version || core_->is_closed();
  }
  std::optional<T> next() {
    if (seen_version_ == core_->version) return std::nullopt;
    std::optional<T> value(core_->value);
    seen_version_ = core_->version;
    return value;
  }

  detail::watch_core<T>* core_;
  std::uint64_t seen_version_;
};

/// A case of select(): waits for a change, with the result of `receiver`'s changed().
template <class T>
[[nodiscard]] auto on_change(watch_receiver<T>& receiver) noexcept {
  return detail::receiver_case(receiver);
}

}  // namespace gyre
