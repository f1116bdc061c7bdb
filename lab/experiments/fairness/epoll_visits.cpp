// SPDX-License-Identifier: Apache-2.0
// A plain loop over epoll, level-triggered, that reads at most 64 KiB of a connection and then goes
// on to the next one: the rotation that fairness is measured against.
#include <lab/experiments/throughput/contender.hpp>
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

namespace {

using lab::network::checked;

// Bytes that the kernel does not accept are copied; the connection then waits until they are sent.
class visiting_epoll {
 public:
  template <lab::network::any_session Session>
  [[noreturn]] static void run(std::span<Session> sessions) {
    const int epoll = checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    std::vector<connection<Session>> connections(sessions.size());
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      connections[i].served = &sessions[i];
      connections[i].wait_for(epoll, EPOLL_CTL_ADD);
    }

    std::vector<std::byte> buffer(std::size_t{64} << 10);
    std::array<epoll_event, 512> events;
    for (;;) {
      const int ready = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < ready; ++i) {
        auto& at = *static_cast<connection<Session>*>(events[static_cast<std::size_t>(i)].data.ptr);
        const bool had_rest = !at.rest.empty();
        had_rest ? at.send_rest() : at.receive(buffer);
        if (had_rest != !at.rest.empty()) at.wait_for(epoll, EPOLL_CTL_MOD);
      }
    }
  }

 private:
  template <class Session>
  struct connection {
    Session* served = nullptr;
    lab::network::unsent_bytes rest;

    void wait_for(int epoll, int operation) {
      const std::uint32_t events = rest.empty() ? EPOLLIN : EPOLLOUT;
      epoll_event wanted{.events = events, .data = {.ptr = this}};
      checked(epoll_ctl(epoll, operation, served->fd(), &wanted), "epoll_ctl");
    }

    void receive(std::span<std::byte> buffer) {
      const ssize_t got = recv(served->fd(), buffer.data(), buffer.size(), 0);
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) served->lost();
      const auto answer = served->received(buffer.first(static_cast<std::size_t>(got)));
      rest.append(answer.subspan(send_some(answer)));
    }

    void send_rest() { rest.drop(send_some(rest.left())); }

    std::size_t send_some(std::span<const std::byte> data) {
      if (data.empty()) return 0;
      const ssize_t sent = ::send(served->fd(), data.data(), data.size(), MSG_NOSIGNAL);
      if (sent >= 0) return static_cast<std::size_t>(sent);
      if (errno != EAGAIN) served->lost();
      return 0;
    }
  };
};

}  // namespace

int main(int argc, char** argv) { lab::network::contender_main<visiting_epoll>(argc, argv); }
