// SPDX-License-Identifier: Apache-2.0
// callback: a user's function that may destroy the object it is a member of.
#pragma once

#include <gyre/base/move_only_function.hpp>

#include <utility>

namespace gyre::detail {

/// A function that may destroy the callback and the callback's owner: for the call, the function is
/// moved to the stack, so that its captures stay valid. The function must not call the callback.
template <class... Args>
class callback {
 public:
  using function = move_only_function<void(Args...)>;

  explicit callback(function action) noexcept : function_(std::move(action)) {}
  callback& operator=(callback&&) = delete;
  ~callback() {
    if (destroyed_flag_ != nullptr) *destroyed_flag_ = true;
  }

  void operator()(Args... args) {
    call current_call(*this);
    current_call.callable(args...);
  }

 private:
  struct call {
    explicit call(callback& target) noexcept
        : owner(target), callable(std::move(target.function_)) {
      owner.destroyed_flag_ = &was_destroyed;
    }
    call& operator=(call&&) = delete;
    ~call() {
      if (was_destroyed) return;
      owner.function_ = std::move(callable);
      owner.destroyed_flag_ = nullptr;
    }
    callback& owner;
    function callable;
    bool was_destroyed = false;
  };

  function function_;
  bool* destroyed_flag_ = nullptr;  // set to true by the destructor; null unless a call is running
};

}  // namespace gyre::detail
