// SPDX-License-Identifier: Apache-2.0
// source_of, source_as: convert a callable to an address and back, for code that passes its type
// separately.
#pragma once

#include <memory>
#include <type_traits>

namespace gyre::detail {

/// Returns the address of an object or a function.
template <class F>
void* source_of(F&& callable) noexcept {
  if constexpr (std::is_function_v<std::remove_reference_t<F>>) {
    return reinterpret_cast<void*>(&callable);
  } else {
    return const_cast<void*>(static_cast<const volatile void*>(std::addressof(callable)));
  }
}

/// Returns the callable at `source`, forwarded with the value category of the forwarding reference
/// `F&&`.
template <class F>
F&& source_as(void* source) noexcept {
  return static_cast<F&&>(*reinterpret_cast<std::remove_reference_t<F>*>(source));
}

}  // namespace gyre::detail
