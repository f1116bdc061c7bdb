// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/network/socket_poll.hpp>

#include <lab/harness/network/socket.hpp>

#include <unistd.h>

namespace lab::network {
namespace {

constexpr int longest_wait_ms = 100;

}  // namespace

socket_poll::socket_poll() : epoll_(checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {}
socket_poll::~socket_poll() { close(epoll_); }

void socket_poll::watch(polled_socket& socket, std::uint32_t events) {
  if (socket.watched == events) return;
  epoll_event event{.events = events, .data = {.ptr = &socket}};
  const int change = socket.watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  checked(epoll_ctl(epoll_, change, socket.fd, &event), "epoll_ctl");
  socket.watched = events;
}

std::size_t socket_poll::wait() {
  const int ready =
      epoll_wait(epoll_, events_.data(), static_cast<int>(events_.size()), longest_wait_ms);
  return ready > 0 ? static_cast<std::size_t>(ready) : 0;
}

}  // namespace lab::network
