// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/message_with_fds.hpp>

#include <array>
#include <cstring>
#include <iterator>

namespace gyre::net::detail {

void message_with_fds::attach(std::span<const int> fds) noexcept {
  if (fds.empty()) return;
  header.msg_control = control_;
  header.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* const first = CMSG_FIRSTHDR(&header);
  if (first == nullptr) return;  // unreachable: the buffer has room for one header
  first->cmsg_level = SOL_SOCKET;
  first->cmsg_type = SCM_RIGHTS;
  first->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(first), fds.data(), fds.size_bytes());
}

std::vector<unique_fd> message_with_fds::take() {
  std::array<unique_fd, max_fds> fd_owners;
  std::size_t count = 0;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t fds = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < fds; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof fd, sizeof fd);
      fd_owners[count++].reset(fd);
    }
  }
  const auto first = std::move_iterator(fd_owners.begin());
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace gyre::net::detail
