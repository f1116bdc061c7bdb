// SPDX-License-Identifier: Apache-2.0
// make_with_random_name: makes a file or directory whose name nobody can guess or has.
#pragma once

#include <gyre/base/detail/retry_interrupted.hpp>

#include <sys/random.h>
#include <sys/types.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

namespace gyre::io::detail {

/// Calls `make(name)`, which returns an error number or zero, with names made of `prefix` and 60
/// random bits, until it returns something else than EEXIST, which happens to nobody but an
/// attacker. Returns that.
template <class Make>
int make_with_random_name(const std::string& prefix, Make make) {
  constexpr const char* digits = "abcdefghijklmnopqrstuvwxyz234567";
  for (int attempts = 100; attempts > 0; --attempts) {
    std::array<std::uint8_t, 12> random{};
    const ::ssize_t count = gyre::detail::retry_interrupted(
        [&] { return ::getrandom(random.data(), random.size(), 0); });
    if (count < 0) return errno;
    std::string name = prefix;
    for (const std::uint8_t each : random) name += digits[each % 32];
    if (const int error = make(name); error != EEXIST) return error;
  }
  return EEXIST;
}

}  // namespace gyre::io::detail
