// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/udp_client.hpp>

#include <gyre/base/clock.hpp>
#include <gyre/base/error.hpp>
#include <gyre/net/socket.hpp>

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

namespace gyre::net {
namespace {

constexpr std::size_t largest_datagram = 65535;
constexpr int most_dropped = 65536;  // should they come faster than they can be dropped

// False when the deadline has come first.
bool wait_for(int fd, short event, steady_time deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - gyre::detail::monotonic_now());
    const auto timeout = std::clamp<std::int64_t>(left.count(), 0, INT_MAX);
    pollfd waiting{fd, event, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(timeout));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) gyre::detail::throw_errno("poll");
    if (ready == 0 && gyre::detail::monotonic_now() >= deadline) return false;
  }
}

}  // namespace

udp_client::udp_client(const endpoint& server, const endpoint& local) {
  socket opened = socket::open(server.family(), socket_type::datagram);
  if (local.family() != address_family::none) opened.bind(local);
  static_cast<void>(opened.connect(server));  // of datagrams, at once
  fd_ = opened.release();
}

void udp_client::send(std::span<const std::byte> bytes) {
  while (::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
    if (errno == EAGAIN) {
      wait_for(fd_.get(), POLLOUT, steady_time::max());
    } else if (errno != EINTR) {
      gyre::detail::throw_errno("send");
    }
  }
}

std::optional<io::buffer> udp_client::receive(duration timeout) {
  const steady_time deadline = gyre::detail::later(gyre::detail::monotonic_now(), timeout);
  std::array<std::byte, largest_datagram> bytes;
  for (;;) {
    const ssize_t count = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
    if (count >= 0) {
      std::optional<io::buffer> datagram(std::in_place);
      datagram->append(std::span(bytes).first(static_cast<std::size_t>(count)));
      return datagram;
    }
    if (errno == EAGAIN) {
      if (!wait_for(fd_.get(), POLLIN, deadline)) return std::nullopt;
    } else if (errno != EINTR) {
      gyre::detail::throw_errno("recv");
    }
  }
}

std::optional<io::buffer> udp_client::ask(std::span<const std::byte> question, duration timeout) {
  // Late answers to earlier questions, and the errors that these met.
  for (int left = most_dropped; left > 0; --left) {
    if (::recv(fd_.get(), nullptr, 0, MSG_TRUNC) < 0 && errno == EAGAIN) break;
  }
  send(question);
  return receive(timeout);
}

endpoint udp_client::local_endpoint() const { return socket_ref(fd_.get()).local_endpoint(); }

}  // namespace gyre::net
