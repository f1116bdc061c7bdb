// SPDX-License-Identifier: Apache-2.0
// Fault injection into system calls, and counts of them. Link system_call_faults.cpp into the test:
// its functions interpose the C library's, for gyre's code and all other code.
//
//     const gyre::test::fault full("accept4", EMFILE);     // the next accept4 fails
//     const gyre::test::fault late("send", ENOBUFS, {.after = 2, .times = 3});
//
// On io_uring:
// - While a fault for accept4 or recv is active, a ring refuses new multishot accepts and receives;
//   those that it has begun go on.
// - A file operation on a ring fails as the corresponding call would.
// - A fault for epoll_ctl makes a ring refuse multishot polls, with EBADF whatever the error.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace gyre::test {

/// Makes calls of one system call fail, on the calling thread, until the object is destroyed.
class fault {
 public:
  struct plan {
    int after = 0;  ///< calls that succeed before the first failure
    int times = 1;  ///< calls that fail; negative: all
  };
  /// `call` is one of known_calls(); otherwise throws std::invalid_argument.
  fault(std::string_view call, int error, plan when);
  fault(std::string_view call, int error) : fault(call, error, plan{}) {}
  fault(const fault&) = delete;
  fault& operator=(const fault&) = delete;
  ~fault();

  /// Calls that the fault has failed so far.
  int hits() const noexcept;

  static std::span<const std::string_view> known_calls() noexcept;

 private:
  int call_;
};

/// The number of calls of one system call by the calling thread so far; for syscall(2), only calls
/// of futex(2) count. `call` as for a fault.
std::size_t calls_made(std::string_view call);

/// The number of descriptors that the process has open.
int open_descriptors();

}  // namespace gyre::test
