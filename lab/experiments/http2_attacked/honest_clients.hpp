// SPDX-License-Identifier: Apache-2.0
// Honest clients of HTTP/2: requests at a fixed rate, whose latency begins when they are due.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/histogram.hpp>
#include <lab/harness/http2/session.hpp>
#include <lab/harness/network/closed_load.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/timing.hpp>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lab::http2_attacked {

/// Connections that take turns. Thread-safety: one thread.
class honest_clients {
 public:
  honest_clients(std::uint16_t port, std::size_t count, std::uint32_t rate, std::string_view body,
                 fault sabotage)
      : epoll_(network::checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        interval_(std::chrono::nanoseconds(std::chrono::seconds{1}) / rate),
        sabotage_(sabotage) {
    for (const int fd : network::connect_all(port, count)) {
      peers_.push_back(std::make_unique<peer>(fd, port, body));
      flush(*peers_.back());
    }
    await([this] {
      return std::ranges::all_of(peers_, [](const auto& each) { return each->state.is_ready(); });
    });
    if (!mistake_.empty()) mistake_ = "a server without SETTINGS";
  }
  honest_clients(const honest_clients&) = delete;
  honest_clients& operator=(const honest_clients&) = delete;
  ~honest_clients() {
    for (const auto& each : peers_) {
      if (each->fd >= 0) close(each->fd);
    }
    close(epoll_);
  }

  /// Sends requests for this time, and waits for the responses. Records the latencies in
  /// nanoseconds.
  void run(std::chrono::nanoseconds time, histogram& latencies) {
    latencies_ = &latencies;
    const clock::time_point begin = clock::now();
    for (clock::time_point due = begin; due < begin + time && mistake_.empty(); due += interval_) {
      while (clock::now() < due && mistake_.empty()) turn(due - clock::now());
      request(due);
    }
    await([this] { return answered_ == requested_; });
  }
  /// Waits for the reply to a PING on each connection, before which a response that nothing has
  /// asked for would stand.
  void finish() {
    for (const auto& each : peers_) {
      if (!mistake_.empty()) return;
      each->state.ping();
      flush(*each);
    }
    await([this] {
      return std::ranges::all_of(peers_, [](const auto& each) { return each->state.has_pong(); });
    });
  }

  std::uint64_t requested() const { return requested_; }
  std::uint64_t answered() const { return answered_; }
  const std::string& mistake() const { return mistake_; }

 private:
  struct peer {
    peer(int socket, std::uint16_t port, std::string_view body)
        : fd(socket),
          state({.authority = "127.0.0.1:" + std::to_string(port),
                 .sent_body = {},
                 .expected_body = body}) {}
    int fd;
    http2::session state;
    std::deque<clock::time_point> due = {};  // of the requests that were not answered
    std::uint32_t watched = 0;
  };

  template <class Done>
  void await(Done done) {
    network::turn_until([this] { turn(std::chrono::milliseconds{100}); },
                        [this] { return received_; }, [&] { return !mistake_.empty() || done(); });
    if (mistake_.empty() && !done()) mistake_ = "a server that is silent for five seconds";
  }
  void request(clock::time_point due) {
    peer& client = *peers_[requested_++ % peers_.size()];
    client.due.push_back(due);
    const fault now = std::exchange(sabotage_, fault::none);
    if (now == fault::duplicate) client.state.request_unnoticed();
    if (now != fault::lose) client.state.request();
    flush(client);
  }
  void fail(peer& client, std::string_view why) {
    if (mistake_.empty()) mistake_ = why;
    close(std::exchange(client.fd, -1));
  }
  void watch(peer& client, std::uint32_t events) {
    if (client.watched == events) return;
    epoll_event wanted{.events = events, .data = {.ptr = &client}};
    network::checked(
        epoll_ctl(epoll_, client.watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, client.fd, &wanted),
        "epoll_ctl");
    client.watched = events;
  }
  void flush(peer& client) {
    for (std::string* output = &client.state.output(); !output->empty();
         output = &client.state.output()) {
      const ssize_t count = send(client.fd, output->data(), output->size(), MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN) return fail(client, "a connection that cannot be written");
      if (count < 0) return watch(client, EPOLLIN | EPOLLOUT);
      output->erase(0, static_cast<std::size_t>(count));
    }
    watch(client, EPOLLIN);
  }
  void receive(peer& client) {
    std::array<char, 16'384> bytes;
    const ssize_t count = recv(client.fd, bytes.data(), bytes.size(), 0);
    if (count == 0) return fail(client, "a connection that ends early");
    if (count < 0 && errno != EAGAIN) return fail(client, "a connection that is reset");
    if (count < 0) return;
    received_ += static_cast<std::uint64_t>(count);
    const clock::time_point time = clock::now();
    const std::size_t complete =
        client.state.receive({bytes.data(), static_cast<std::size_t>(count)});
    if (!client.state.mistake().empty()) return fail(client, client.state.mistake());
    for (std::size_t i = 0; i < complete && !client.due.empty(); ++i) {
      const auto latency = std::chrono::nanoseconds(time - client.due.front());
      latencies_->record(static_cast<std::uint64_t>(latency.count()));
      client.due.pop_front();
    }
    answered_ += complete;
    flush(client);
  }
  // Handles the events that come within this time.
  void turn(std::chrono::nanoseconds limit) {
    limit = std::max(limit, std::chrono::nanoseconds{0});
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
    const timespec wait{.tv_sec = seconds.count(), .tv_nsec = (limit - seconds).count()};
    std::array<epoll_event, 64> events;
    const int ready =
        epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &wait, nullptr);
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      peer& client = *static_cast<peer*>(event.data.ptr);
      if (client.fd >= 0 && (event.events & EPOLLOUT) != 0) flush(client);
      if (client.fd >= 0 && (event.events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) receive(client);
    }
  }

  int epoll_;
  std::chrono::nanoseconds interval_;
  fault sabotage_;  // of the first request
  std::vector<std::unique_ptr<peer>> peers_;
  histogram* latencies_ = nullptr;
  std::uint64_t received_ = 0;  // bytes
  std::uint64_t requested_ = 0;
  std::uint64_t answered_ = 0;
  std::string mistake_;
};

}  // namespace lab::http2_attacked
