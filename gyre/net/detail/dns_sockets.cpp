// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/dns_sockets.hpp>

#include <ares.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>

namespace gyre::net::detail {
namespace {

ares_socket_t open_socket(int family, int type, int protocol, void*) {
  const int fd = ::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
  const int on = 1;
  if (fd >= 0 && type == SOCK_STREAM) {
    // An optimisation: where it fails, a question takes longer.
    static_cast<void>(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  }
  return fd;
}

int close_socket(ares_socket_t fd, void*) { return ::close(fd); }

int connect_socket(ares_socket_t fd, const sockaddr* to, ares_socklen_t size, void*) {
  return ::connect(fd, to, size);
}

ares_ssize_t receive(ares_socket_t fd, void* to, std::size_t size, int flags, sockaddr* from,
                     ares_socklen_t* from_size, void*) {
  return ::recvfrom(fd, to, size, flags, from, from_size);
}

ares_ssize_t send(ares_socket_t fd, const iovec* pieces, int count, void*) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);  // sendmsg(2) only reads them
  message.msg_iovlen = static_cast<std::size_t>(count);
  return ::sendmsg(fd, &message, MSG_NOSIGNAL);
}

}  // namespace

const ares_socket_functions dns_socket_functions{&open_socket, &close_socket, &connect_socket,
                                                 &receive, &send};

}  // namespace gyre::net::detail
