// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/network/socket.hpp>

#include <lab/harness/contender.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace lab::network {
namespace {

constexpr int backlog = 4096;
constexpr std::size_t connections_per_address = 8192;

sockaddr_in loopback(std::uint16_t port, std::size_t host = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + static_cast<std::uint32_t>(host));
  return address;
}

template <class Value>
void set_option(int socket, int level, int name, const Value& value) {
  checked(setsockopt(socket, level, name, &value, sizeof value), "setsockopt");
}

void await_connected(int socket) {
  pollfd waiting{.fd = socket, .events = POLLOUT, .revents = 0};
  while (poll(&waiting, 1, -1) < 0) {
    if (errno != EINTR) checked(-1, "poll");
  }
  int error = 0;
  socklen_t size = sizeof error;
  checked(getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size), "getsockopt");
  if (error != 0) throw std::system_error(error, std::system_category(), "connect");
}

}  // namespace

int checked(int result, const char* call) {
  if (result == -1) throw std::system_error(errno, std::system_category(), call);
  return result;
}

void raise_descriptor_limit(std::size_t needed) {
  rlimit limit{};
  checked(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
  if (limit.rlim_max < needed) {
    throw cannot_run(std::to_string(needed) + " open files are needed, " +
                     std::to_string(limit.rlim_max) + " allowed (ulimit -Hn)");
  }
  limit.rlim_cur = limit.rlim_max;
  checked(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
}

int listen_on_loopback() {
  const int listener = checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  const sockaddr_in address = loopback(0);
  checked(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), "bind");
  checked(listen(listener, backlog), "listen");
  return listener;
}

void disable_delay(int socket) { set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1); }

void set_non_blocking(int fd) {
  checked(fcntl(fd, F_SETFL, checked(fcntl(fd, F_GETFL), "fcntl") | O_NONBLOCK), "fcntl");
}

std::uint16_t port_of(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  checked(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  return ntohs(address.sin_port);
}

std::vector<int> accept_all(int listener, std::size_t count) {
  std::vector<int> accepted(count);
  for (int& each : accepted) {
    each = checked(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC), "accept4");
    set_option(each, IPPROTO_TCP, TCP_NODELAY, 1);
  }
  return accepted;
}

int begin_connect(std::uint16_t port, std::size_t index) {
  const int connection =
      checked(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
  set_option(connection, IPPROTO_TCP, TCP_NODELAY, 1);
  // connect() chooses the port: it knows the peer and so may take a port that is in use elsewhere.
  set_option(connection, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  const sockaddr_in source = loopback(0, index / connections_per_address % 200);
  checked(bind(connection, reinterpret_cast<const sockaddr*>(&source), sizeof source), "bind");
  const sockaddr_in address = loopback(port);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS) {
    const int error = errno;
    close(connection);
    throw std::system_error(error, std::system_category(), "connect");
  }
  return connection;
}

std::vector<int> connect_all(std::uint16_t port, std::size_t count) {
  std::vector<int> connected(count);
  for (std::size_t i = 0; i < count; ++i) {
    connected[i] = begin_connect(port, i);
    await_connected(connected[i]);
    set_option(connected[i], SOL_SOCKET, SO_LINGER, linger{.l_onoff = 1, .l_linger = 0});
  }
  return connected;
}

}  // namespace lab::network
