// SPDX-License-Identifier: Apache-2.0
// Connected descriptors for tests, non-blocking.
#pragma once

#include <gyre/base/error.hpp>
#include <gyre/base/unique_fd.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

namespace gyre::test {

using fd_pair = std::pair<unique_fd, unique_fd>;

inline int checked(int returned, const char* what) {
  if (returned < 0) gyre::detail::throw_errno(what);
  return returned;
}

/// A TCP socket that listens on a free port of the loopback address, and its address.
inline std::pair<unique_fd, sockaddr_in> loopback_listener(int backlog = 128) {
  unique_fd listener(
      checked(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket"));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  checked(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), "bind");
  checked(::listen(listener.get(), backlog), "listen");
  checked(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size),
          "getsockname");
  return {std::move(listener), address};
}

/// Both ends of a TCP connection. With `buffer`, each end buffers about that many bytes.
inline fd_pair tcp_pair(int buffer = 0) {
  auto [listener, address] = loopback_listener(1);
  unique_fd left(checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  if (buffer > 0) {
    for (const int fd : {left.get(), listener.get()}) {
      checked(::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer), "SO_RCVBUF");
      checked(::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer), "SO_SNDBUF");
    }
  }
  checked(::connect(left.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), "connect");
  unique_fd right(checked(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC),
                          "accept4"));
  checked(::fcntl(left.get(), F_SETFL, O_NONBLOCK), "fcntl");
  return {std::move(left), std::move(right)};
}

/// Both ends of a pair of Unix sockets.
inline fd_pair unix_pair(int type = SOCK_STREAM) {
  int ends[2];
  checked(::socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), "socketpair");
  return {unique_fd(ends[0]), unique_fd(ends[1])};
}

/// The read end and the write end of a pipe.
inline fd_pair pipe_pair() {
  int ends[2];
  checked(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), "pipe2");
  return {unique_fd(ends[0]), unique_fd(ends[1])};
}

}  // namespace gyre::test
