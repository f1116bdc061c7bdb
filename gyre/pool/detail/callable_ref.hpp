// SPDX-License-Identifier: Apache-2.0
// callable_ref: a type-erased reference to a callable.
#pragma once

namespace gyre::detail {

/// Lifetime: the callable must outlive the reference.
class callable_ref {
 public:
  template <class F>
  explicit callable_ref(F& callable) noexcept
      : callable_(&callable),
        call_([](void* object) { static_cast<void>((*static_cast<F*>(object))()); }) {}

  void operator()() const { call_(callable_); }

 private:
  void* callable_;
  void (*call_)(void*);
};

}  // namespace gyre::detail
