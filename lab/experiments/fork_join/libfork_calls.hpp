// SPDX-License-Identifier: Apache-2.0
// fork() and call() of libfork, which takes brackets where the compiler has subscripts of several
// arguments, else parentheses.
#pragma once

#include <libfork/core.hpp>

#include <utility>

namespace lab::fork_join {

#if __cpp_multidimensional_subscript >= 202211L
inline constexpr auto fork = [](auto&&... to) {
  return lf::fork[std::forward<decltype(to)>(to)...];
};
inline constexpr auto call = [](auto&&... to) {
  return lf::call[std::forward<decltype(to)>(to)...];
};
#else
inline constexpr auto& fork = lf::fork;
inline constexpr auto& call = lf::call;
#endif

}  // namespace lab::fork_join
