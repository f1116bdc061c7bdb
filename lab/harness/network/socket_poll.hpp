// SPDX-License-Identifier: Apache-2.0
// The epoll of a load, level-triggered, with the sockets of its connections.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace lab::network {

/// The base of a load's connection. A socket that was closed has the descriptor -1.
struct polled_socket {
  int fd = -1;
  std::uint32_t watched = 0;  ///< events; none until the first watch()
};

/// Waits for the sockets of a load. Thread-safety: one thread.
class socket_poll {
 public:
  /// Errors: throws std::system_error.
  socket_poll();
  socket_poll(const socket_poll&) = delete;
  socket_poll& operator=(const socket_poll&) = delete;
  ~socket_poll();

  /// Waits for these events of an open socket from now on.
  /// Errors: throws std::system_error.
  void watch(polled_socket& socket, std::uint32_t events);

  /// Handles the events that come within a moment, on open sockets only: calls `write` and then
  /// `read` with each Connection whose socket is ready for it.
  template <class Connection, class Write, class Read>
  void turn(Write write, Read read) {
    const std::size_t ready = wait();
    for (std::size_t i = 0; i < ready; ++i) {
      const epoll_event& event = events_[i];
      auto& peer = *static_cast<Connection*>(static_cast<polled_socket*>(event.data.ptr));
      if ((event.events & EPOLLOUT) != 0 && peer.fd >= 0) write(peer);
      const bool is_readable = (event.events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0;
      if (is_readable && peer.fd >= 0) read(peer);
    }
  }

 private:
  std::size_t wait();

  int epoll_;
  std::array<epoll_event, 512> events_{};
};

}  // namespace lab::network
