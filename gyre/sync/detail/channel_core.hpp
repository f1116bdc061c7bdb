// SPDX-License-Identifier: Apache-2.0
// channel_core: the state of a channel; receive_case, send_case: its cases of a select().
#pragma once

#include <gyre/sync/channel_error.hpp>
#include <gyre/sync/detail/select_wait.hpp>
#include <gyre/sync/detail/spin_lock.hpp>
#include <gyre/sync/detail/subscribers.hpp>

#include <cassert>
#include <cstddef>
#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gyre::detail {

/// A type of values that move without failing, and that may live in a coroutine's frame, which
/// compilers do not align beyond 16 bytes.
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

/// The state of a channel. Receivers wait only while there are no values, senders only while the
/// buffer is full.
template <class T, class Buffer>
class channel_core : public subscribers {
 public:
  template <class... Arguments>
  explicit channel_core(Arguments... arguments) : buffer_(arguments...) {}
  ~channel_core() { assert(senders_.empty() && "destroyed while waited for"); }

  // The functions below, up to buffer(), are called with the lock held.

  channel_status push(T& value, select_wait*& woken_wait) noexcept {
    if (is_closed()) [[unlikely]]
      return channel_status::closed;
    if (!receivers_.empty()) {
      if (select_node* const first = receivers_.claim_first()) {
        static_cast<receive_node<T>&>(*first).value.emplace(std::move(value));
        woken_wait = first->wait;
        return channel_status::ok;
      }
    }
    if (buffer_.full()) return channel_status::full;
    buffer_.push(std::move(value));
    return channel_status::ok;
  }

  channel_status pop(std::optional<T>& target, select_wait*& woken_wait) noexcept {
    if (!buffer_.empty()) [[likely]] {
      target.emplace(std::move(buffer_.front()));
      buffer_.pop();
      if (select_node* const first = claim_sender(woken_wait)) {
        buffer_.push(std::move(*static_cast<send_node<T>&>(*first).source));
      }
      return channel_status::ok;
    }
    if (select_node* const first = claim_sender(woken_wait)) {  // only if the capacity is 0
      target.emplace(std::move(*static_cast<send_node<T>&>(*first).source));
      return channel_status::ok;
    }
    return is_closed() ? channel_status::closed : channel_status::empty;
  }

  void enlist_sender(send_node<T>& sender) noexcept { senders_.push_back(sender); }
  Buffer& buffer() noexcept { return buffer_; }

  // The functions below are called without the lock.

  void close() noexcept { subscribers::close(&senders_); }
  channel_status try_push(T& value) noexcept {
    select_wait* woken_wait = nullptr;
    lock_.lock();
    const channel_status status = push(value, woken_wait);
    lock_.unlock();
    if (woken_wait != nullptr) woken_wait->wake();
    return status;
  }
  std::expected<T, channel_status> try_pop() noexcept {
    select_wait* woken_wait = nullptr;
    std::optional<T> value;
    lock_.lock();
    const channel_status status = pop(value, woken_wait);
    lock_.unlock();
    if (woken_wait != nullptr) woken_wait->wake();
    if (!value) return std::unexpected(status);
    return std::move(*value);
  }

  std::size_t size() const noexcept {
    const std::lock_guard hold(lock_);
    return buffer_.size();
  }
  std::size_t capacity() const noexcept { return buffer_.capacity(); }

 private:
  select_node* claim_sender(select_wait*& woken_wait) noexcept {
    if (senders_.empty()) return nullptr;
    select_node* const first = senders_.claim_first();
    if (first != nullptr) woken_wait = first->wait;
    return first;
  }

  select_queue senders_;
  Buffer buffer_;
};

/// The case of select() that receives from a channel.
template <class T, class Buffer>
class receive_case : public receive_node<T> {
 public:
  using result = std::optional<T>;
  explicit receive_case(channel_core<T, Buffer>& source) noexcept : source_(&source) {}

  spin_lock& mutex() noexcept { return source_->mutex(); }
  bool attempt(select_wait*& woken_wait) noexcept {
    if (source_->pop(this->value, woken_wait) == channel_status::empty) return false;
    this->ends_turn = source_->spend_turn_budget();
    return true;
  }
  void enlist() noexcept { source_->enlist(*this); }
  static std::error_code error() noexcept { return {}; }
  std::optional<T> take() noexcept { return std::move(this->value); }

 private:
  channel_core<T, Buffer>* source_;
};

/// The case of select() that sends to a channel. Holds the value or, if Source is T&, refers to it.
template <class T, class Buffer, class Source>
class send_case : public send_node<T> {
 public:
  using result = void;
  send_case(channel_core<T, Buffer>& target, Source&& value) noexcept
      : target_(&target), value_(std::forward<Source>(value)) {}

  spin_lock& mutex() noexcept { return target_->mutex(); }
  bool attempt(select_wait*& woken_wait) noexcept {
    const channel_status status = target_->push(value_, woken_wait);
    if (status == channel_status::full) return false;
    this->closed = status == channel_status::closed;
    this->ends_turn = target_->spend_turn_budget();
    return true;
  }
  void enlist() noexcept {
    this->source = std::addressof(value_);
    target_->enlist_sender(*this);
  }
  std::error_code error() const noexcept {
    return this->closed ? make_error_code(channel_errc::closed) : std::error_code();
  }
  static void take() noexcept {}

 private:
  channel_core<T, Buffer>* target_;
  Source value_;
};

}  // namespace gyre::detail
