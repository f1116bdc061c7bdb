// SPDX-License-Identifier: Apache-2.0
// fault: makes system calls of the calling thread fail. calls_made(): counts system calls. Link
// gyre::testing_faults.
//
//     const gyre::testing::fault full("accept4", EMFILE);  // the next accept4 fails
//     const gyre::testing::fault late("send", ENOBUFS, {.after = 2, .times = 3});
//
// How it works: the library defines functions with the names of functions of the C library and
// liburing, which call the original ones unless a fault is due. If a program uses a name of this
// header, the linker uses these functions for gyre's code and all other code of the program.
//
// Limits:
// - The program must be linked with a shared C library and a shared liburing; system calls that the
//   C library makes itself, as in getaddrinfo(3) or fopen(3), do not fail.
// - A fault applies to the thread that constructs it, and to the threads on which gyre makes calls
//   for that thread while it waits (for a ring of io_uring). For a loop on another thread,
//   construct the fault in a task of that loop.
// - On io_uring, requests are not system calls. While a fault for accept4 or recv is active, a ring
//   refuses new multishot accepts and receives, and gyre makes the system call instead; multishot
//   requests that the ring has begun continue. A file operation on a ring fails like the
//   corresponding system call. A fault for epoll_ctl makes a ring refuse multishot polls, always
//   with EBADF. To test other errors, run the loop on epoll (GYRE_IO=epoll).
// - With GCC's ThreadSanitizer mmap never fails, because ThreadSanitizer itself needs mmap.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace gyre::testing {

/// Makes calls of one system call fail on the calling thread, until the object is destroyed. A
/// second fault for the same call replaces the first.
///
/// Thread-safety: the thread that constructed it.
/// Complexity: a call without a fault costs some nanoseconds more than the original.
class fault {
 public:
  /// The calls that fail.
  struct plan {
    int after = 0;  ///< calls that succeed before the first failure
    int times = 1;  ///< calls that fail; negative: all further calls
  };
  /// Makes `call_name`, one of known_calls(), fail with `error`, a value of errno. Errors:
  /// std::invalid_argument for an unknown call.
  fault(std::string_view call_name, int error, plan fault_plan);
  fault(std::string_view call_name, int error) : fault(call_name, error, plan{}) {}
  fault(const fault&) = delete;
  fault& operator=(const fault&) = delete;
  ~fault();

  /// The number of calls that the fault has made fail so far.
  int hits() const noexcept;

  /// The names of the calls that can fail.
  static std::span<const std::string_view> known_calls() noexcept;

 private:
  int call_;
};

/// The number of calls of one system call by the calling thread so far. For syscall(2), only calls
/// of futex(2) count. `call_name` is one of fault::known_calls().
std::size_t calls_made(std::string_view call_name);

/// The number of open descriptors of the process, to detect leaks: it should be equal before and
/// after a test. Throws std::filesystem::filesystem_error without /proc.
int open_descriptors();

}  // namespace gyre::testing
