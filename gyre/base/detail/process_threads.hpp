// SPDX-License-Identifier: Apache-2.0
// thread_id, is_single_threaded: query the kernel about the threads of this process.
#pragma once

#include <sys/types.h>
#include <unistd.h>

namespace gyre::detail {

/// Returns the kernel's id of the calling thread, which ps(1) shows.
inline ::pid_t thread_id() noexcept { return ::gettid(); }

/// Returns whether the process is known to have one thread; false if /proc cannot be read.
/// Allocates nothing, so that a wait that calls this function never fails. Complexity: one system
/// call.
bool is_single_threaded() noexcept;

}  // namespace gyre::detail
