// SPDX-License-Identifier: Apache-2.0
// The quiet connection: sends a ping, waits for its answer and then for a moment, and so on.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/histogram.hpp>
#include <lab/harness/network/echo.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/timing.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>

namespace lab::fairness {

/// Measures from the sending of a ping until the kernel received the answer, of which it keeps the
/// time (SO_TIMESTAMPNS): the client's threads share a processor, and a thread that waits for it
/// would add its own delay. The pause between two pings is random, so that pings meet a server in
/// every part of its rotation.
class pings {
 public:
  /// With `sabotage`, the first ping is not sent, or sent twice.
  pings(int socket, fault sabotage) : socket_(socket), sabotage_(sabotage) {
    const int on = 1;
    network::checked(setsockopt(socket_, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on),
                     "setsockopt(SO_TIMESTAMPNS)");
  }

  /// Sends pings, one at least, until `end`; with `record`, records their latency.
  void run(clock::time_point end, bool record) {
    std::uniform_int_distribution<int> pause(0, 2000);
    while (ping(record) && clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds{pause(random_)});
    }
  }

  std::uint64_t sent() const { return sent_; }
  std::uint64_t answered() const { return answered_; }
  std::uint64_t wrong() const { return wrong_; }
  /// In nanoseconds.
  const histogram& latency() const { return latency_; }

 private:
  static constexpr std::size_t ping_bytes = 64;
  using message = std::array<std::byte, ping_bytes>;

  static std::int64_t nanoseconds(const timespec& time) {
    return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
  }
  static std::int64_t real_time() {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return nanoseconds(now);
  }

  // False: no answer came for three seconds.
  bool ping(bool record) {
    message content;
    for (std::size_t i = 0; i < content.size(); ++i)
      content[i] = network::echo_messages::at(sent_ + i);
    const std::int64_t began = real_time();
    for (int copies = copies_of_next(); copies > 0; --copies) {
      network::checked(static_cast<int>(send(socket_, &content, sizeof content, MSG_NOSIGNAL)),
                       "send");
    }
    ++sent_;
    message answer;
    std::int64_t arrived = 0;
    for (std::size_t size = 0; size < answer.size();) {
      pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 3000) <= 0) return false;
      size += receive(answer.data() + size, answer.size() - size, arrived);
    }
    ++answered_;
    wrong_ += answer != content;
    if (record)
      latency_.record(static_cast<std::uint64_t>(std::max<std::int64_t>(arrived - began, 0)));
    return true;
  }

  // The first ping is sabotaged: a repeated one is noticed by the next.
  int copies_of_next() const {
    if (sabotage_ == fault::none || sent_ > 0) return 1;
    return sabotage_ == fault::lose ? 0 : 2;
  }

  std::size_t receive(std::byte* room, std::size_t size, std::int64_t& arrived) {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(timespec))> control{};
    iovec piece{room, size};
    msghdr header{};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t got = recvmsg(socket_, &header, 0);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) throw std::runtime_error("the quiet connection was lost");
    arrived = real_time();
    for (cmsghdr* each = CMSG_FIRSTHDR(&header); each != nullptr;
         each = CMSG_NXTHDR(&header, each)) {
      if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_TIMESTAMPNS) continue;
      timespec stamp{};
      std::memcpy(&stamp, CMSG_DATA(each), sizeof stamp);
      arrived = nanoseconds(stamp);
    }
    return static_cast<std::size_t>(got);
  }

  int socket_;
  fault sabotage_;
  std::minstd_rand random_;
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t wrong_ = 0;
  histogram latency_;
};

}  // namespace lab::fairness
