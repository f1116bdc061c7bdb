// SPDX-License-Identifier: Apache-2.0
// oneshot_core: the state of a oneshot; oneshot_closed_case: waits until the receiver is gone.
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/sync/detail/select_wait.hpp>
#include <gyre/sync/detail/spin_lock.hpp>
#include <gyre/sync/detail/subscribers.hpp>

#include <cassert>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::detail {

[[noreturn, gnu::cold]] inline void throw_empty_oneshot_sender() {
  throw std::logic_error("gyre::oneshot_sender: is empty: it has sent, or was moved from");
}
[[noreturn, gnu::cold]] inline void throw_empty_oneshot_receiver() {
  throw std::logic_error("gyre::oneshot_receiver: is empty: it was moved from");
}

/// The state that both ends share. The end that retires last deletes it. In terms of the base
/// class, the oneshot is closed once the sender has retired.
template <class T>
class oneshot_core : public subscribers, public slab_object {
 public:
  using value_type = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  ~oneshot_core() { assert(senders_.empty() && "a sender was destroyed while waited for"); }

  /// Called by the sender when it retires. If the receiver still exists, calls `store` with the
  /// lock held, to deliver the result. Returns whether the receiver still exists.
  template <class Store>
  bool retire_sender(Store store) noexcept {
    intrusive_queue<operation> ended_waits;
    lock_.lock();
    const bool receiver_exists = !has_receiver_left_;
    if (receiver_exists) store(*this);
    set_closed();
    receivers_.claim_all(ended_waits, false);
    lock_.unlock();  // if receiver_exists, this may be gone from here on
    if (!receiver_exists) delete this;
    wake_all(ended_waits);
    return receiver_exists;
  }
  /// Called by the receiver when it retires: ends the sender's waits. Deletes this if the sender
  /// has retired before.
  void retire_receiver() noexcept {
    if (was_closed()) {
      lock_.wait_until_free();  // the sender touches nothing after unlocking
      delete this;
      return;
    }
    intrusive_queue<operation> ended_waits;
    lock_.lock();
    has_receiver_left_ = true;
    const bool is_last = is_closed();
    senders_.claim_all(ended_waits, false);
    lock_.unlock();  // unless `is_last`, this may be gone from here on
    if (is_last) delete this;
    wake_all(ended_waits);
  }
  bool receiver_left() const noexcept {
    const std::lock_guard hold(lock_);
    return has_receiver_left_;
  }

  /// Returns whether the sender has retired. Called without the lock.
  bool sender_left() const noexcept { return was_closed(); }

  // The functions below are called with the lock held.

  void store(value_type&& value) noexcept { value_.emplace(std::move(value)); }
  void store_error(std::exception_ptr&& error) noexcept { error_ = std::move(error); }
  /// Returns the value or nullopt, or throws the error. Further calls return nullopt. Needs no lock
  /// once the oneshot is closed and the sender has unlocked it.
  std::optional<value_type> take() {
    if (error_ != nullptr) [[unlikely]]
      std::rethrow_exception(std::exchange(error_, nullptr));
    return std::exchange(value_, std::nullopt);
  }
  bool has_receiver_left() const noexcept { return has_receiver_left_; }
  void enlist_sender(select_node& sender) noexcept { senders_.push_back(sender); }

 private:
  bool has_receiver_left_ = false;
  select_queue senders_;  // the waits of oneshot_sender::closed()
  std::optional<value_type> value_;
  std::exception_ptr error_;
};

/// The case of select() that completes when the receiver is gone.
template <class T>
class oneshot_closed_case : public select_node {
 public:
  using result = void;
  explicit oneshot_closed_case(oneshot_core<T>& core) noexcept : core_(&core) {}

  spin_lock& mutex() noexcept { return core_->mutex(); }
  bool attempt(select_wait*&) noexcept { return core_->has_receiver_left(); }
  void enlist() noexcept { core_->enlist_sender(*this); }
  static std::error_code error() noexcept { return {}; }
  static void take() noexcept {}

 private:
  oneshot_core<T>* core_;
};

/// Gives select() access to the case that an end of a oneshot waits for.
struct oneshot_access {
  template <class End>
  static auto case_of(End& end) {
    return end.waited_case();
  }
};

}  // namespace gyre::detail
