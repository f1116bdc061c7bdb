// SPDX-License-Identifier: Apache-2.0
// System calls that fail when a test says so, and are counted. Link system_call_faults.cpp into the
// test: its functions stand in front of the C library's, for gyre's code as for everybody else's.
//
//     const gyre::test::fault full("accept4", EMFILE);     // the next accept4 fails
//     const gyre::test::fault late("send", ENOBUFS, {.after = 2, .times = 3});
//
// While accept4 or recv is to fail, a ring does not begin to accept or to receive by itself; with
// what it has begun it goes on. What it does with a file fails as the call would. Where epoll_ctl
// is to fail, a ring that is asked to tell of a descriptor, again and again, refuses that: with
// EBADF, whatever the error.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace gyre::test {

/// Lets calls of one system call fail, on the calling thread, until it is destroyed.
class fault {
 public:
  struct plan {
    int after = 0;  ///< calls that are let through before
    int times = 1;  ///< calls that then fail; negative: all
  };
  /// `call` is one of known_calls(); otherwise throws std::invalid_argument.
  fault(std::string_view call, int error, plan when);
  fault(std::string_view call, int error) : fault(call, error, plan{}) {}
  fault(const fault&) = delete;
  fault& operator=(const fault&) = delete;
  ~fault();

  /// Calls that were made to fail so far.
  int hits() const noexcept;

  static std::span<const std::string_view> known_calls() noexcept;

 private:
  int call_;
};

/// Calls of one system call that the calling thread has made so far. Of syscall(2) only futex(2).
/// `call` as for a fault.
std::size_t calls_made(std::string_view call);

/// Descriptors that the process has open.
int open_descriptors();

}  // namespace gyre::test
