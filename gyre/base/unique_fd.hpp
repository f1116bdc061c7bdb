// SPDX-License-Identifier: Apache-2.0
// unique_fd: an owner of a file descriptor.
#pragma once

#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <utility>

namespace gyre {

/// The owner of one file descriptor or none. Closes the descriptor once.
///
/// Thread-safety: any thread, one at a time.
/// Errors: closing is not repeated after EINTR: on Linux the descriptor is closed nevertheless, and
/// a second close could close one that another thread has just opened. EBADF is asserted; other
/// errors (EIO of a file system that writes late) are lost: call fsync first. errno is preserved.
class unique_fd {
 public:
  constexpr unique_fd() noexcept = default;
  /// Takes over `fd`; any negative number means none.
  constexpr explicit unique_fd(int fd) noexcept : fd_{fd} {}
  constexpr unique_fd(unique_fd&& other) noexcept : fd_{other.release()} {}
  constexpr unique_fd& operator=(unique_fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  constexpr ~unique_fd() { reset(); }

  /// Returns the descriptor; negative when there is none.
  [[nodiscard]] constexpr int get() const noexcept { return fd_; }
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return fd_ >= 0; }

  /// Disowns the descriptor without closing it, and returns it.
  [[nodiscard]] constexpr int release() noexcept { return std::exchange(fd_, -1); }

  /// Closes the descriptor and takes over `fd`, which must be another one (asserted).
  constexpr void reset(int fd = -1) noexcept {
    const int old_fd = std::exchange(fd_, fd);
    if (old_fd < 0) return;
    assert(old_fd != fd && "already owned");
    close(old_fd);
  }

  constexpr void swap(unique_fd& other) noexcept { std::swap(fd_, other.fd_); }
  friend constexpr void swap(unique_fd& left, unique_fd& right) noexcept { left.swap(right); }

 private:
  static void close(int fd) noexcept {
    const int error = errno;
    [[maybe_unused]] const int result = ::close(fd);
    assert((result == 0 || errno != EBADF) && "another owner closed the descriptor");
    errno = error;
  }

  int fd_ = -1;
};

}  // namespace gyre
