// SPDX-License-Identifier: Apache-2.0
// stop_callback_slot: the memory of a wait's stop callback, without a flag, a token or a pointer to
// the wait: a saving for millions of waiting coroutines.
#pragma once

#include <gyre/task/stop_token.hpp>

#include <memory>
#include <new>

namespace gyre::detail {

/// A base of `Wait`, which has a member `void stop() noexcept` that the stop callback calls. The
/// derived class must remember whether a callback exists, and its token, and remove it before the
/// destructor.
template <class Wait>
class stop_callback_slot {
 public:
  stop_callback_slot& operator=(stop_callback_slot&&) = delete;

 protected:
  ~stop_callback_slot() {}

  /// Adds the callback. May call stop(), here or on another thread, before it returns.
  void add_stop_callback(inplace_stop_token token) noexcept {
    ::new (static_cast<void*>(&callback_)) bare_stop_callback(token, &call_stop);
  }
  void remove_stop_callback(inplace_stop_token token) noexcept {
    callback_.remove(token);
    std::destroy_at(&callback_);
  }

 private:
  friend Wait;
  stop_callback_slot() noexcept {}

  static void call_stop(stop_callback_base& callback) noexcept {
    static_cast<Wait&>(reinterpret_cast<stop_callback_slot&>(callback)).stop();
  }

  union {
    bare_stop_callback callback_;
  };
};

}  // namespace gyre::detail
