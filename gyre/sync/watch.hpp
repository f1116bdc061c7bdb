// SPDX-License-Identifier: Apache-2.0
// A value that changes, and those who want to know.
//
//     gyre::watch<settings> current(load());
//     gyre::watch_receiver<settings> mine = current.subscribe();
//     current.set(load());
//
//     while (std::optional<settings> next = co_await mine.changed()) apply(*next);
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
#include <system_error>
#include <type_traits>
#include <utility>

namespace gyre {

template <class T>
class watch_receiver;

namespace detail {

/// The value of a watch, and how often it was changed.
template <class T>
struct watch_core : subscribers {
  explicit watch_core(T&& initial) noexcept : value(std::move(initial)) {}

  /// Lets `change` change the value.
  template <class Change>
  void apply(Change&& change) {
    intrusive_queue<operation> woken;
    {
      const std::lock_guard hold(lock_);
      change(value);
      ++version;
      waiting_.claim_all(woken, false);
    }
    wake_all(woken);
  }
  T copy() {
    const std::lock_guard hold(lock_);
    return value;
  }

  // With the lock held.
  T value;
  std::uint64_t version = 0;
};

}  // namespace detail

/// A value that anyone can set and anyone can read, and whose receivers can wait for a change. They
/// see the newest value, and not every one that it had in between: for that see broadcast.
///
/// Closing: receivers get the last change they have not seen, then nullopt; the value can still be
/// read and set, but nobody waits for it any more. Cost: no allocation; a change wakes every
/// receiver that waits, O(those). All members from any thread. T is copied, and functions given to
/// modify() run, while a lock is held: they must be short and not use the watch, so make large
/// values shared_ptr<const …>. The watch must outlive its receivers.
template <class T>
class watch {
  static_assert(std::copy_constructible<T> && std::is_nothrow_move_constructible_v<T> &&
                    std::is_nothrow_swappable_v<T> && alignof(T) <= 16,
                "set() cannot fail; compilers do not align coroutine frames beyond 16 bytes");

 public:
  using value_type = T;

  explicit watch(T initial) noexcept : core_(std::move(initial)) {}

  /// Changes the value, also to an equal one.
  void set(T value) noexcept {
    // Exchanged, so that the old value is destroyed after the lock was given up.
    core_.apply([&](T& current) { std::ranges::swap(current, value); });
  }
  /// Calls `change(T&)` to change the value. If it throws, that is no change to be waited for.
  template <std::invocable<T&> Change>
  void modify(Change&& change) {
    core_.apply([&](T& current) { std::invoke(change, current); });
  }
  /// The value of now.
  [[nodiscard]] T get() const { return core_.copy(); }

  /// A receiver that has seen the value of now.
  [[nodiscard]] watch_receiver<T> subscribe() noexcept { return watch_receiver<T>(core_); }

  /// Ends waiting for changes. Further calls do nothing.
  void close() noexcept { core_.close(); }
  [[nodiscard]] bool closed() const noexcept {
    const std::lock_guard hold(core_.lock());
    return core_.closed();
  }

 private:
  mutable detail::watch_core<T> core_;
};

/// Knows which value of a watch it has seen. For one coroutine at a time; a copy goes its own way.
/// Must not be moved while it is waited on.
template <class T>
class watch_receiver {
 public:
  using value_type = T;
  using received = T;

  /// Awaited, waits until the value has changed since this receiver saw it last, and gives the
  /// newest one (a std::optional<T>); nullopt when the watch is closed and the last change was
  /// seen. If it was cancelled (operation_cancelled), or copying the value threw, no
  /// change counts as seen.
  [[nodiscard]] auto changed() noexcept {
    return detail::single_wait<detail::receiver_case<watch_receiver>>(std::in_place, *this);
  }
  /// Whether changed() would not wait for a change: there is one it has not seen.
  [[nodiscard]] bool has_changed() const noexcept {
    const std::lock_guard hold(core_->lock());
    return seen_ != core_->version;
  }
  /// The value of now, which it has then seen.
  [[nodiscard]] T get() {
    const std::lock_guard hold(core_->lock());
    T value(core_->value);
    seen_ = core_->version;
    return value;
  }

 private:
  friend watch<T>;
  friend detail::receiver_case<watch_receiver>;

  explicit watch_receiver(detail::watch_core<T>& core) noexcept : core_(&core) {
    const std::lock_guard hold(core.lock());
    seen_ = core.version;
  }

  // Both with the lock held.
  [[nodiscard]] bool ready() const noexcept { return seen_ != core_->version || core_->closed(); }
  std::optional<T> next() {
    if (seen_ == core_->version) return std::nullopt;
    std::optional<T> value(core_->value);
    seen_ = core_->version;
    return value;
  }

  detail::watch_core<T>* core_;
  std::uint64_t seen_;
};

/// For select(): a change of what `receiver` watches. Gives what its changed() gives.
template <class T>
[[nodiscard]] auto on_change(watch_receiver<T>& receiver) noexcept {
  return detail::receiver_case(receiver);
}

}  // namespace gyre
