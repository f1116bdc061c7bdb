// SPDX-License-Identifier: Apache-2.0
// The floor: epoll itself, with one buffer for all; a connection is no more than its descriptor.
#include <lab/experiments/connections/workload.hpp>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace {

class epoll_server {
 public:
  static void serve(int listener) {
    const int epoll = lab::network::checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    watch(epoll, listener, EPOLLIN);
    std::array<epoll_event, 512> events;
    for (;;) {
      const int ready = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < ready; ++i) {
        const int fd = events[static_cast<std::size_t>(i)].data.fd;
        if (fd == listener) {
          accept_all(epoll, listener);
        } else {
          answer(fd);
        }
      }
    }
  }

 private:
  static void watch(int epoll, int fd, std::uint32_t events) {
    epoll_event wanted{.events = events, .data = {.fd = fd}};
    lab::network::checked(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &wanted), "epoll_ctl");
  }

  static void accept_all(int epoll, int listener) {
    for (;;) {
      const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      watch(epoll, fd, EPOLLIN | EPOLLET);
    }
  }

  static void answer(int fd) {
    static std::array<std::byte, 64 * 1024> buffer;
    const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
    if (got > 0) {
      ::send(fd, buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL);
    } else if (got == 0 || errno != EAGAIN) {
      close(fd);
    }
  }
};

}  // namespace

int main(int argc, char** argv) { lab::connections::contender_main<epoll_server>(argc, argv); }
