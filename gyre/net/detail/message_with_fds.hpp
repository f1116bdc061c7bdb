// SPDX-License-Identifier: Apache-2.0
// message_with_fds: a message of a Unix socket and its descriptors (SCM_RIGHTS).
#pragma once

#include <gyre/base/unique_fd.hpp>

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <vector>

namespace gyre::net::detail {

/// Arguments of sendmsg(2) or recvmsg(2). The pieces must outlive the object, which cannot be
/// moved.
class message_with_fds {
 public:
  /// The maximum number of descriptors in one message (SCM_MAX_FD).
  static constexpr std::size_t max_fds = 253;

  /// `pieces`: at most IOV_MAX pieces of bytes.
  explicit message_with_fds(std::span<const iovec> pieces) noexcept {
    header.msg_iov = const_cast<iovec*>(pieces.data());  // the kernel only reads the pieces
    header.msg_iovlen = pieces.size();
  }
  message_with_fds(const message_with_fds&) = delete;
  message_with_fds& operator=(const message_with_fds&) = delete;

  /// Adds descriptors to send, at most max_fds.
  void attach(std::span<const int> fds) noexcept;
  /// Makes room to receive descriptors.
  void make_room() noexcept {
    header.msg_control = control_;
    header.msg_controllen = sizeof control_;
  }
  /// Returns the received descriptors, which become owned before anything can fail. Throws
  /// std::bad_alloc.
  std::vector<unique_fd> take();
  /// Whether more descriptors came than the process could take; the kernel has closed the others.
  bool is_truncated() const noexcept { return (header.msg_flags & MSG_CTRUNC) != 0; }

  msghdr header{};

 private:
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int) * max_fds)];
};

}  // namespace gyre::net::detail
