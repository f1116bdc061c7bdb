// SPDX-License-Identifier: Apache-2.0
// futex(2): sleeping on a word of memory until another thread of the process changes it.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>

#include <cstdint>

namespace gyre::detail {

/// Sleeps while `word` is `expected`, until it is woken, a signal or `deadline`
/// (steady_time::max(): none). May return for no reason, so the caller looks at the word again.
/// One system call; async-signal-safe.
void futex_wait_until(const atomic<std::uint32_t>& word, std::uint32_t expected,
                      steady_time deadline) noexcept;

/// Wakes one thread that sleeps on `word`, which is not read and need not exist any more. One
/// system call; async-signal-safe.
void futex_wake_one(const atomic<std::uint32_t>* word) noexcept;
/// As futex_wake_one(), for all threads that sleep on `word`.
void futex_wake_all(const atomic<std::uint32_t>* word) noexcept;

}  // namespace gyre::detail
