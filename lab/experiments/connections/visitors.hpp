// SPDX-License-Identifier: Apache-2.0
// The client of the experiment: makes connections, some at a time, uses each for one byte there and
// back, and then keeps or closes it.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/timing.hpp>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lab::connections {

/// The action after a connection's answer: keep the connection, or close it.
enum class then { stays, leaves };

/// The client's connections. Thread-safety: one thread.
class visitors {
 public:
  explicit visitors(std::uint16_t port)
      : port_(port), epoll_(network::checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {}

  /// Makes `count` connections, or as many as can be made until `deadline`. Returns early when no
  /// connection makes progress for 3 s. With `sabotage`, one sends no byte or two bytes.
  void visit(std::uint64_t count, clock::time_point deadline, connections::then then,
             fault sabotage = fault::none) {
    then_ = then;
    sabotage_ = sabotage;
    sabotaged_ = begun_ + count / 2;
    const std::uint64_t end = begun_ + count;
    clock::time_point progress = clock::now();
    bool late = false;
    for (;;) {
      while (!late && begun_ < end && under_way_ < most_under_way) begin();
      if (under_way_ == 0) return;
      const bool progressed = take_turn();
      const auto now = clock::now();
      late = now >= deadline;
      if (progressed) progress = now;
      if (now - progress > std::chrono::seconds(3)) return;
    }
  }

  /// Receives what arrives on idle connections, which should be nothing.
  void receive_pending() {
    while (take_turn(0)) {
    }
  }

  std::uint64_t begun() const { return begun_; }
  std::uint64_t answered() const { return answered_; }
  std::uint64_t wrong() const { return wrong_; }  ///< wrong answers, and lost connections

 private:
  static constexpr std::uint64_t most_under_way = 64;

  enum class state : std::uint8_t { connecting, asking, idle };

  struct visitor {
    std::uint64_t number = 0;
    connections::visitors::state state = state::connecting;
  };

  visitor& at(int fd) {
    const auto index = static_cast<std::size_t>(fd);
    if (visitors_.size() <= index) visitors_.resize(index + 1);
    return visitors_[index];
  }

  void begin() {
    const int fd = network::begin_connect(port_, begun_);
    at(fd) = {begun_++, state::connecting};
    epoll_event wanted{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.fd = fd}};
    network::checked(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &wanted), "epoll_ctl");
    ++under_way_;
  }

  bool take_turn(int timeout_ms = 500) {
    std::array<epoll_event, 128> events;
    const int ready =
        epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout_ms);
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (at(event.data.fd).state == state::connecting) ask(event.data.fd);
      if ((event.events & EPOLLIN) != 0) receive(event.data.fd);
    }
    return ready > 0;
  }

  void ask(int fd) {
    visitor& client = at(fd);
    client.state = state::asking;
    const auto byte = static_cast<std::byte>(client.number);
    const std::array<std::byte, 2> bytes{byte, byte};
    std::size_t size = 1;
    if (client.number == sabotaged_ && sabotage_ == fault::lose) size = 0;
    if (client.number == sabotaged_ && sabotage_ == fault::duplicate) size = 2;
    if (size > 0 && ::send(fd, bytes.data(), size, MSG_NOSIGNAL) < 0) close_connection(fd);
  }

  void receive(int fd) {
    visitor& client = at(fd);
    std::array<std::byte, 16> bytes;
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EAGAIN) return;
    const bool right = got == 1 && client.state == state::asking &&
                       bytes[0] == static_cast<std::byte>(client.number);
    if (!right) {
      ++wrong_;
    } else {
      ++answered_;
    }
    if (got <= 0 || (right && then_ == then::leaves)) return close_connection(fd);
    if (client.state == state::asking) --under_way_;
    client.state = state::idle;
  }

  void close_connection(int fd) {
    if (at(fd).state != state::idle) --under_way_;
    close(fd);
  }

  std::uint16_t port_;
  int epoll_;
  connections::then then_ = then::stays;
  fault sabotage_ = fault::none;
  std::uint64_t sabotaged_ = 0;
  std::uint64_t begun_ = 0;
  std::uint64_t under_way_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t wrong_ = 0;
  std::vector<visitor> visitors_;  // by descriptor
};

}  // namespace lab::connections
