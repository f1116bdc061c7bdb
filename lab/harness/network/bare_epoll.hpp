// SPDX-License-Identifier: Apache-2.0
// The floor on epoll: an event loop without anything that makes it a library, written as one would
// in C. Also the common client, against which all servers are measured alike.
#pragma once

#include <lab/harness/network/session.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/network/unsent_bytes.hpp>

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lab::network {

/// Edge-triggered: each socket is registered once, for both directions, and a read that does not
/// fill the buffer has emptied the socket. All sockets of a thread share one receive buffer, from
/// which answers are sent directly. Bytes that the kernel does not accept are copied to memory from
/// malloc. A server stops reading from the socket until those bytes are sent; a client reads on, as
/// otherwise both could wait for ever.
template <std::size_t BufferBytes>
class bare_epoll {
 public:
  template <any_session Session>
  [[noreturn]] static void run(std::span<Session> sessions) {
    const int epoll = checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    const std::unique_ptr<std::byte[]> buffer(new std::byte[BufferBytes]);
    std::vector<connection<Session>> connections(sessions.size());
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      connections[i].served = &sessions[i];
      epoll_event wanted{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.ptr = &connections[i]}};
      checked(epoll_ctl(epoll, EPOLL_CTL_ADD, sessions[i].fd(), &wanted), "epoll_ctl");
    }
    for (connection<Session>& each : connections) each.send(each.served->first());

    std::array<epoll_event, 512> events;
    for (;;) {
      const int ready = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < ready; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        auto& at = *static_cast<connection<Session>*>(event.data.ptr);
        if (!at.rest.empty() && !at.send_rest() && !Session::begins) continue;
        at.receive(std::span(buffer.get(), BufferBytes), (event.events & EPOLLIN) != 0);
      }
    }
  }

 private:
  template <class Session>
  struct connection {
    Session* served = nullptr;
    unsent_bytes rest;
    bool unread = false;  // data may have arrived while reading was paused

    void receive(std::span<std::byte> buffer, bool readable) {
      if (!readable && !unread) return;
      unread = false;
      for (;;) {
        const ssize_t got = recv(served->fd(), buffer.data(), buffer.size(), 0);
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) served->lost();
        const auto data = buffer.first(static_cast<std::size_t>(got));
        if (!send(served->received(data)) && !Session::begins) {
          unread = true;
          return;
        }
        if (data.size() < buffer.size()) return;
      }
    }

    // Returns whether the kernel accepted all of `data`.
    bool send(std::span<const std::byte> data) {
      if (rest.empty()) data = data.subspan(send_some(data));
      if (!data.empty()) rest.append(data);
      return rest.empty();
    }

    bool send_rest() {
      rest.drop(send_some(rest.left()));
      unread |= !rest.empty();
      return rest.empty();
    }

    std::size_t send_some(std::span<const std::byte> data) {
      if (data.empty()) return 0;
      const ssize_t sent = ::send(served->fd(), data.data(), data.size(), MSG_NOSIGNAL);
      if (sent >= 0) return static_cast<std::size_t>(sent);
      if (errno != EAGAIN) served->lost();
      return 0;
    }
  };
};

/// The client of every server that is not measured against its own client.
using common_client = bare_epoll<std::size_t{1} << 20>;

}  // namespace lab::network
