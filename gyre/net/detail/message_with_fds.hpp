// SPDX-License-Identifier: Apache-2.0
// A message of a Unix socket and the descriptors that go with it (SCM_RIGHTS).
#pragma once

#include <gyre/base/unique_fd.hpp>

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <vector>

namespace gyre::net::detail {

/// What sendmsg(2) or recvmsg(2) is called with. What it is made of must outlive it; stays in place.
class message_with_fds {
 public:
  /// The most descriptors that go with one message (SCM_MAX_FD).
  static constexpr std::size_t most_fds = 253;

  /// At most IOV_MAX pieces.
  explicit message_with_fds(std::span<const iovec> pieces) noexcept {
    header.msg_iov = const_cast<iovec*>(pieces.data());  // the kernel only reads it
    header.msg_iovlen = pieces.size();
  }
  message_with_fds(const message_with_fds&) = delete;
  message_with_fds& operator=(const message_with_fds&) = delete;

  /// To be sent with it; at most most_fds.
  void attach(std::span<const int> fds) noexcept;
  /// For those that come with it.
  void make_room() noexcept {
    header.msg_control = control_;
    header.msg_controllen = sizeof control_;
  }
  /// Those that have come. They are owned before anything can fail. Throws std::bad_alloc.
  std::vector<unique_fd> take();
  /// Whether more came than the process could take; the kernel has closed these.
  bool is_truncated() const noexcept { return (header.msg_flags & MSG_CTRUNC) != 0; }

  msghdr header{};

 private:
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int) * most_fds)];
};

}  // namespace gyre::net::detail
