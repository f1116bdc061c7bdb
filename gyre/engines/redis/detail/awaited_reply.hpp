// SPDX-License-Identifier: Apache-2.0
// awaited_reply: a reply that a coroutine waits for, and its value.
#pragma once

#include <gyre/engines/detail/pipeline.hpp>
#include <gyre/engines/redis/reply_cursor.hpp>
#include <gyre/engines/redis/reply_traits.hpp>
#include <gyre/sync/event.hpp>

#include <exception>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gyre::redis::detail {

/// A command in flight, of whatever result.
class expected_reply : public engines::detail::pending_reply {
 public:
  /// `bytes`: the complete reply, which is gone afterwards.
  virtual void complete(std::string_view bytes) noexcept = 0;
  /// Whether a message confirms it (SUBSCRIBE in RESP3), and only an error comes as a reply.
  virtual bool is_confirmed_by_message() const noexcept { return false; }

 protected:
  ~expected_reply() = default;
};

/// Lives in the frame of the coroutine that waits for it.
///
/// Lifetime: in flight until complete() or lose(), or until pipeline::forget().
class awaited_reply : public expected_reply {
 public:
  enum class outcome : unsigned char { none, complete, lost, unsent };

  auto wait() noexcept { return end_event_.wait(); }
  outcome result() const noexcept { return outcome_; }
  /// The error of a lost connection, or of reading the reply.
  const std::exception_ptr& error() const noexcept { return error_; }

  void lose(const std::exception_ptr& error, bool was_sent) noexcept final {
    error_ = error;
    end(was_sent ? outcome::lost : outcome::unsent);
  }
  void complete(std::string_view bytes) noexcept final {
    try {
      read(bytes);
    } catch (...) {
      error_ = std::current_exception();
    }
    end(outcome::complete);
  }

 protected:
  ~awaited_reply() = default;
  virtual void read(std::string_view bytes) = 0;

 private:
  void end(outcome result) noexcept {
    outcome_ = result;
    end_event_.set();
  }

  manual_reset_event end_event_;
  std::exception_ptr error_;
  outcome outcome_ = outcome::none;
};

/// A reply with a value.
template <class T>
class typed_reply final : public awaited_reply {
 public:
  /// Returns the value after outcome::complete, or throws error().
  T take() {
    if (error()) std::rethrow_exception(error());
    return std::move(*value_);
  }

 private:
  void read(std::string_view bytes) override {
    reply_cursor values(bytes);
    value_.emplace(read_reply<T>(values));
  }

  std::optional<T> value_;
};

template <>
class typed_reply<void> final : public awaited_reply {
 public:
  explicit typed_reply(bool is_confirmed_by_message = false) noexcept
      : by_message_(is_confirmed_by_message) {}

  bool is_confirmed_by_message() const noexcept override { return by_message_; }
  void take() {
    if (error()) std::rethrow_exception(error());
  }

 private:
  void read(std::string_view bytes) override {
    reply_cursor values(bytes);
    read_reply<void>(values);
  }

  const bool by_message_;
};

}  // namespace gyre::redis::detail
