// SPDX-License-Identifier: Apache-2.0
// retry_interrupted: repeats a system call that a signal has interrupted.
//
//     const ssize_t count = retry_interrupted([&] { return ::read(fd, data, size); });
#pragma once

#include <cerrno>

namespace gyre::detail {

/// Calls `call` until its result is not negative or errno is not EINTR; returns that result. For
/// calls that may be repeated: not close(2), which frees the descriptor even then.
template <class Call>
auto retry_interrupted(Call call) noexcept {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace gyre::detail
