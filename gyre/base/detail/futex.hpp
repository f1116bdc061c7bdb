// SPDX-License-Identifier: Apache-2.0
// Sleeping on a word of memory until another thread changes it: futex(2).
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>

#include <cstddef>
#include <cstdint>

namespace gyre::detail {

/// Sleeps while `word` is `expected`, until futex_wake_one() or `deadline` (the end of time: none).
/// May return for no reason, so the caller looks at the word again. One system call.
void futex_wait_until(const atomic<std::uint32_t>& word, std::uint32_t expected,
                      steady_time deadline) noexcept;

/// Wakes at most `most` threads that sleep on `word`, which is not read and need not exist any more.
/// One system call.
void futex_wake(const atomic<std::uint32_t>* word, std::size_t most) noexcept;

/// The same for one thread.
void futex_wake_one(const atomic<std::uint32_t>* word) noexcept;

}  // namespace gyre::detail
