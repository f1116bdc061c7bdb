// SPDX-License-Identifier: Apache-2.0
// process_id, thread_id, thread_name, is_single_threaded: query the kernel about this process and
// its threads.
#pragma once

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>

namespace gyre::detail {

/// Returns the kernel's id of this process.
inline ::pid_t process_id() noexcept { return ::getpid(); }

/// Returns the kernel's id of the calling thread, which ps(1) shows.
inline ::pid_t thread_id() noexcept { return ::gettid(); }

/// Returns the name of the calling thread, of at most 15 bytes and a zero.
inline std::array<char, 16> thread_name() noexcept {
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return name;
}

/// Returns whether the process is known to have one thread; false if /proc cannot be read.
/// Allocates nothing, so that a wait that calls this function never fails. Complexity: one system
/// call.
bool is_single_threaded() noexcept;

}  // namespace gyre::detail
