// SPDX-License-Identifier: Apache-2.0
// blocking_pool: the threads for calls that may block, such as calls on files.
#pragma once

#include <gyre/pool/thread_pool.hpp>

#include <cstddef>

namespace gyre::io {

/// The number of threads of blocking_pool().
inline constexpr std::size_t blocking_pool_workers = 4;

/// Returns the pool of the process for calls that block, and so would delay a loop: operations on
/// files without io_uring, and calls of the program's own. Its threads and its queue
/// (thread_pool_options::capacity) are shared, so a call that blocks for long delays the others.
/// The pool is never destroyed, so that it can be used until the program ends. A forked child gets
/// a pool of its own; tasks that waited in the parent's pool stay there.
///
/// Thread-safety: any thread.
/// Errors: std::system_error if there can be no threads, until a call has started the pool.
/// Complexity: a load, after the first call.
thread_pool& blocking_pool();

namespace detail {

/// Returns whether a call waits in blocking_pool() or has not ended, without starting the pool. The
/// answer may be out of date, but a call that was submitted by the asking thread, or in its sight,
/// counts until its wake-up was posted.
[[nodiscard]] bool is_blocking_pool_busy();

}  // namespace detail
}  // namespace gyre::io
