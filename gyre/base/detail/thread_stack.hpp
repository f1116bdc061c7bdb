// SPDX-License-Identifier: Apache-2.0
// capture_stack: the calls that another thread of the process is in.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace gyre::detail {

/// Returns the addresses of the code that the thread with the kernel's id `thread` executes, the
/// innermost call first, at most 64. Sends the thread SIGVTALRM, whose handler unwinds its stack.
/// So a system call of that thread that a signal interrupts, such as nanosleep(2), returns early.
///
/// Returns nothing if the program uses SIGVTALRM itself, if the thread does not exist or blocks the
/// signal, or if it does not run within `timeout`. One call at a time; others wait. Any thread, but
/// not `thread` itself. Throws std::bad_alloc.
std::vector<std::uint64_t> capture_stack(::pid_t thread, std::chrono::milliseconds timeout);

}  // namespace gyre::detail
