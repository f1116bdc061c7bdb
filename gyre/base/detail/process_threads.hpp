// SPDX-License-Identifier: Apache-2.0
// thread_id, is_single_threaded: the threads of this process, as the system knows them.
#pragma once

#include <sys/types.h>
#include <unistd.h>

namespace gyre::detail {

/// The system's number of the calling thread, as ps(1) shows it.
inline ::pid_t thread_id() noexcept { return ::gettid(); }

/// Whether the process is known to have one thread. False without /proc. Allocates nothing, so that
/// a wait that calls it never fails. Complexity: three system calls.
bool is_single_threaded() noexcept;

}  // namespace gyre::detail
