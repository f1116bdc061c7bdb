// SPDX-License-Identifier: Apache-2.0
// make_with_random_name: makes a file or directory with an unpredictable, unused name.
#pragma once

#include <gyre/base/detail/system_random.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>

namespace gyre::io::detail {

/// Calls `make(name)`, which returns an error number or zero, with names made of `prefix` and 60
/// random bits, until the call returns something other than EEXIST. Returns that number. EEXIST
/// happens only if an attacker guesses names.
template <class Make>
int make_with_random_name(const std::string& prefix, Make make) {
  constexpr const char* digits = "abcdefghijklmnopqrstuvwxyz234567";
  for (int attempts = 100; attempts > 0; --attempts) {
    std::array<std::byte, 12> random{};
    if (const int error = gyre::detail::fill_with_random(random); error != 0) return error;
    std::string name = prefix;
    for (const std::byte byte : random) name += digits[std::to_integer<std::size_t>(byte) % 32];
    if (const int error = make(name); error != EEXIST) return error;
  }
  return EEXIST;
}

}  // namespace gyre::io::detail
