// SPDX-License-Identifier: Apache-2.0
// fill_with_random, require_random: cryptographic random numbers of the system.
#pragma once

#include <cstddef>
#include <span>

namespace gyre::detail {

/// Fills `bytes`, at most 256, with unpredictable random numbers; random_seed() of splitmix64.hpp
/// is for other purposes. Returns the errno of the call that failed, or zero. May block early in
/// the boot.
///
/// Thread-safety: any thread.
/// Complexity: a system call.
[[nodiscard]] int fill_with_random(std::span<std::byte> bytes) noexcept;
/// Fills `bytes` as fill_with_random() does. Throws std::system_error, with `owner` in its text, if
/// the call fails.
void require_random(std::span<std::byte> bytes, const char* owner);

}  // namespace gyre::detail
