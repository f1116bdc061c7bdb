// SPDX-License-Identifier: Apache-2.0
// wake_event: an eventfd(2) that ends a poller's wait from another thread.
#pragma once

#include <gyre/base/error.hpp>
#include <gyre/base/unique_fd.hpp>

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace gyre::io::detail {

/// Readable from raise() to lower().
class wake_event {
 public:
  /// Throws std::system_error (EMFILE, ENFILE, ENOMEM).
  wake_event() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_) gyre::detail::throw_errno("eventfd");
  }

  int fd() const noexcept { return fd_.get(); }
  /// Any thread; async-signal-safe.
  void raise() noexcept {
    const std::uint64_t one = 1;
    // A full counter (2^64 wake-ups) would wake all the same.
    static_cast<void>(::write(fd_.get(), &one, sizeof one));
  }
  void lower() noexcept {
    std::uint64_t count;
    static_cast<void>(::read(fd_.get(), &count, sizeof count));
  }

 private:
  unique_fd fd_;
};

}  // namespace gyre::io::detail
