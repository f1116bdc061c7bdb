// SPDX-License-Identifier: Apache-2.0
// An open-loop client: sends each request when it is due, whether or not earlier ones are answered.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/histogram.hpp>
#include <lab/harness/network/echo.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/timing.hpp>

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

namespace lab::latency {

/// Request k is due at k / rate and goes to connection k mod n. The thread never sleeps, as its
/// wake-ups would be measured with the answers.
class requests {
 public:
  /// The first `warm_up` requests are not measured. With `sabotage`, one later request is not sent,
  /// or sent twice.
  requests(std::span<const int> sockets, std::uint32_t rate, std::uint64_t warm_up,
           std::uint64_t measured, fault sabotage)
      : rate_(rate),
        warm_up_(warm_up),
        total_(warm_up + measured),
        sabotage_(sabotage),
        epoll_(network::checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        connections_(sockets.size()) {
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      connections_[i].fd = sockets[i];
      epoll_event wanted{.events = EPOLLIN, .data = {.u64 = i}};
      network::checked(epoll_ctl(epoll_, EPOLL_CTL_ADD, sockets[i], &wanted), "epoll_ctl");
    }
  }

  /// Sends all requests and receives their answers; returns early when none arrives for 3 s.
  void run() {
    began_ = clock::now();
    clock::time_point progress = began_;
    std::uint64_t next = 0;
    while (answered_ < total_) {
      const auto now = clock::now();
      for (; next < total_ && due(next) <= now; ++next) send(next);
      if (receive()) {
        progress = now;
      } else if (now - progress > std::chrono::seconds(3) && next > answered_) {
        return;
      }
    }
  }

  std::uint64_t total() const { return total_; }
  std::uint64_t answered() const { return answered_; }
  std::uint64_t wrong() const { return wrong_; }

  /// Time from the due time of a request to its answer, in nanoseconds.
  const histogram& latency() const { return latency_; }

  /// Time from the due time of a request until it was sent: the client's own share of the latency.
  const histogram& sent_late() const { return sent_late_; }

 private:
  static constexpr std::size_t message_bytes = 64;
  using message = std::array<std::byte, message_bytes>;

  struct connection {
    int fd = -1;
    std::uint64_t answers = 0;
    message begun;  // an answer that has not arrived whole
    std::size_t begun_size = 0;
    std::vector<std::byte> unsent;
  };

  clock::time_point due(std::uint64_t request) const {
    // Seconds and the rest separately: a product with 10^9 would overflow within a day.
    return began_ + std::chrono::seconds(request / rate_) +
           std::chrono::nanoseconds(request % rate_ * 1'000'000'000 / rate_);
  }

  static std::uint64_t since(clock::time_point then) {
    return static_cast<std::uint64_t>((clock::now() - then) / std::chrono::nanoseconds(1));
  }

  static message make(std::uint64_t request) {
    message content;
    for (std::size_t i = 0; i < message_bytes; ++i) {
      content[i] = network::echo_messages::at(request + i);
    }
    std::memcpy(content.data(), &request, sizeof request);
    return content;
  }

  void send(std::uint64_t request) {
    connection& to = connections_[request % connections_.size()];
    const bool sabotaged = request == warm_up_ + (total_ - warm_up_) / 2;
    if (sabotaged && sabotage_ == fault::lose) return;
    if (request >= warm_up_) sent_late_.record(since(due(request)));
    const message content = make(request);
    to.unsent.insert(to.unsent.end(), content.begin(), content.end());
    if (sabotaged && sabotage_ == fault::duplicate) {
      to.unsent.insert(to.unsent.end(), content.begin(), content.end());
    }
    flush(to);
  }

  static void flush(connection& to) {
    const ssize_t sent = ::send(to.fd, to.unsent.data(), to.unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) network::checked(-1, "send");
    if (sent > 0) to.unsent.erase(to.unsent.begin(), to.unsent.begin() + sent);
  }

  // Returns whether anything arrived.
  bool receive() {
    std::array<epoll_event, 64> events;
    const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < ready; ++i) {
      receive(connections_[events[static_cast<std::size_t>(i)].data.u64]);
    }
    return ready > 0;
  }

  void receive(connection& from) {
    std::array<std::byte, 16 * 1024> buffer;
    const ssize_t got = recv(from.fd, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) throw std::runtime_error("a connection was lost");
    std::span<const std::byte> data(buffer.data(), static_cast<std::size_t>(got));
    while (!data.empty()) {
      const std::size_t moved = std::min(data.size(), message_bytes - from.begun_size);
      std::memcpy(from.begun.data() + from.begun_size, data.data(), moved);
      data = data.subspan(moved);
      from.begun_size += moved;
      if (from.begun_size < message_bytes) break;
      from.begun_size = 0;
      answer(from);
    }
    if (!from.unsent.empty()) flush(from);
  }

  void answer(connection& from) {
    const std::uint64_t request = from.answers++ * connections_.size() +
                                  static_cast<std::uint64_t>(&from - connections_.data());
    ++answered_;
    wrong_ += from.begun != make(request);
    if (request >= warm_up_) latency_.record(since(due(request)));
  }

  std::uint32_t rate_;
  std::uint64_t warm_up_;
  std::uint64_t total_;
  fault sabotage_;
  int epoll_;
  std::vector<connection> connections_;
  clock::time_point began_;
  std::uint64_t answered_ = 0;
  std::uint64_t wrong_ = 0;
  histogram latency_;
  histogram sent_late_;
};

}  // namespace lab::latency
