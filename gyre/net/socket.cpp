// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/error.hpp>
#include <gyre/net/socket.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

namespace gyre::net {
namespace {

constexpr int flags = SOCK_CLOEXEC | SOCK_NONBLOCK;

void check(int result, const char* call) {
  if (result != 0) gyre::detail::throw_errno(call);
}

[[noreturn, gnu::cold]] void throw_errno_at(const endpoint& where, const char* call) {
  const int error = errno;
  throw std::system_error(error, std::system_category(),
                          std::string(call) + ' ' + where.to_string());
}

}  // namespace

socket socket::open(address_family family, socket_type type, int protocol) {
  unique_fd descriptor(
      ::socket(static_cast<int>(family), static_cast<int>(type) | flags, protocol));
  if (!descriptor) gyre::detail::throw_errno("socket");
  return socket(std::move(descriptor));
}

void socket::bind(const endpoint& local) const {
  if (::bind(fd(), local.data(), local.size()) != 0) throw_errno_at(local, "bind");
}

void socket::listen(int backlog) const {
  if (backlog < 0) gyre::detail::throw_system_error(EINVAL, "listen: a negative backlog");
  check(::listen(fd(), backlog), "listen");
}

// An interrupted connect() continues.
bool socket::connect(const endpoint& peer) const {
  if (::connect(fd(), peer.data(), peer.size()) == 0) return true;
  if (errno != EINPROGRESS && errno != EINTR) throw_errno_at(peer, "connect");
  return false;
}

void socket::shutdown(shutdown_side side) const { detail::shut_down(fd(), side); }

void detail::shut_down(int socket, shutdown_side side) {
  if (::shutdown(socket, static_cast<int>(side)) != 0 && errno != ENOTCONN) {
    gyre::detail::throw_errno("shutdown");
  }
}

void detail::reset_when_closed(int socket) noexcept {
  const ::linger at_once{.l_onoff = 1, .l_linger = 0};
  static_cast<void>(::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
}

std::pair<socket, socket> socket_pair(socket_type type) {
  std::array<int, 2> ends{};
  check(::socketpair(AF_UNIX, static_cast<int>(type) | flags, 0, ends.data()), "socketpair");
  return {socket(unique_fd(ends[0])), socket(unique_fd(ends[1]))};
}

pipe_pair make_pipe() {
  std::array<int, 2> ends{};
  check(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), "pipe2");
  return {.reader = unique_fd(ends[0]), .writer = unique_fd(ends[1])};
}

}  // namespace gyre::net
