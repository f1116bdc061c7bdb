// SPDX-License-Identifier: Apache-2.0
// blocking_pool: the threads for calls that may block, such as calls on files.
#pragma once

#include <gyre/pool/thread_pool.hpp>

#include <cstddef>

namespace gyre::io {

/// The count of threads of blocking_pool().
inline constexpr std::size_t blocking_pool_workers = 4;

/// The pool of the process for calls that block, and so would hold up a loop: operations on files
/// without io_uring, and calls of the program's own. Its threads and its queue
/// (thread_pool_options::capacity) are shared, so a call that blocks for long delays the others.
/// Never destroyed, so that it can be used until the program ends. A forked child gets a pool of
/// its own; tasks that waited in the parent's stay there.
///
/// Thread-safety: any thread.
/// Errors: std::system_error if there can be no threads, until a call has started the pool.
/// Complexity: a load, after the first call.
thread_pool& blocking_pool();

}  // namespace gyre::io
