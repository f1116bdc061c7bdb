// SPDX-License-Identifier: Apache-2.0
// The threads on which calls that may block are made, such as those on files.
#pragma once

#include <gyre/pool/thread_pool.hpp>

#include <cstddef>

namespace gyre::io {

/// How many threads blocking_pool() has.
inline constexpr std::size_t blocking_pool_workers = 4;

/// The pool of the process for calls that block and would hold up a loop. Made by the first call,
/// which throws std::system_error if there can be no more threads, and never destroyed, so that it
/// can be used until the end of the program. A forked child gets one of its own; what the parent
/// had waiting there stays the parent's. Any thread; a load, once it is there.
thread_pool& blocking_pool();

}  // namespace gyre::io
