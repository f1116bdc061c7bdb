// SPDX-License-Identifier: Apache-2.0
// futex(2): sleeping on a word of memory until another thread of the process changes it.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>

#include <cstdint>

namespace gyre::detail {

/// Sleeps if `word` is `expected`, until another thread wakes the caller, a signal is handled, or
/// `deadline` is reached (steady_time::max(): no limit). May return spuriously, so the caller must
/// check the word again. One system call; async-signal-safe.
void futex_wait_until(const atomic<std::uint32_t>& word, std::uint32_t expected,
                      steady_time deadline) noexcept;

/// Wakes one thread that sleeps on `word`, which the kernel does not read and which need not exist
/// any more. One system call; async-signal-safe.
void futex_wake_one(const atomic<std::uint32_t>* word) noexcept;
/// Wakes all threads that sleep on `word`; otherwise like futex_wake_one().
void futex_wake_all(const atomic<std::uint32_t>* word) noexcept;

}  // namespace gyre::detail
