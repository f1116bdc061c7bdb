// SPDX-License-Identifier: Apache-2.0
// fill_with_random: random numbers of the system.
#pragma once

#include <cstddef>
#include <span>

namespace gyre::detail {

/// Fills `bytes`, at most 256, with random numbers that nobody can guess; splitmix64.hpp has seeds
/// for other purposes. Returns errno's number of the call that failed, or zero. Blocks early in the
/// boot.
///
/// Thread-safety: any thread.
/// Complexity: a system call.
[[nodiscard]] int fill_with_random(std::span<std::byte> bytes) noexcept;

}  // namespace gyre::detail
