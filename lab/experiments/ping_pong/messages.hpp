// SPDX-License-Identifier: Apache-2.0
// Framed messages of a ping-pong, and the sessions of both ends. A message is a header, which is
// two numbers of 32 bits in network order, body_size and packet_count, and the body.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/network/echo.hpp>
#include <lab/harness/network/session.hpp>
#include <lab/harness/timing.hpp>

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace lab::ping_pong {

constexpr std::uint32_t least_body = 100;
constexpr std::uint32_t most_body = 10'000;

struct header {
  static constexpr std::size_t size = 8;

  std::uint32_t body_size = 0;
  std::uint32_t packet_count = 0;

  static header read(std::span<const std::byte> from) {
    header network_order;
    std::memcpy(&network_order, from.data(), size);
    return {ntohl(network_order.body_size), ntohl(network_order.packet_count)};
  }

  void write(std::span<std::byte> to) const {
    const header network_order{htonl(body_size), htonl(packet_count)};
    std::memcpy(to.data(), &network_order, size);
  }

  std::size_t message_size() const { return size + body_size; }
};

/// Splits the received bytes into messages. A message that arrives whole is not copied.
class frames {
 public:
  /// Calls `use(header, body)` for each message that `data` completes.
  template <class Use>
  void feed(std::span<const std::byte> data, Use use) {
    while (!data.empty()) {
      if (begun_.empty() && is_whole(data)) {
        const std::size_t size = header::read(data).message_size();
        use(header::read(data), data.subspan(header::size, size - header::size));
        data = data.subspan(size);
      } else {
        take(data, header::size);
        if (begun_.size() < header::size) return;
        take(data, header::read(begun_).message_size());
        if (!is_whole(begun_)) return;
        use(header::read(begun_), std::span<const std::byte>(begun_).subspan(header::size));
        begun_.clear();
      }
    }
  }

 private:
  static bool is_whole(std::span<const std::byte> data) {
    return data.size() >= header::size && data.size() >= header::read(data).message_size();
  }

  // Moves bytes from `data` to begun_ until begun_ has `wanted` bytes.
  void take(std::span<const std::byte>& data, std::size_t wanted) {
    const std::size_t missing = wanted - std::min(wanted, begun_.size());
    const auto moved = data.first(std::min(missing, data.size()));
    begun_.insert(begun_.end(), moved.begin(), moved.end());
    data = data.subspan(moved.size());
  }

  std::vector<std::byte> begun_;
};

/// The server's end: sends each message back with its packet_count one higher.
class server_session : public network::session {
 public:
  static constexpr bool echoes = false;
  static constexpr bool begins = false;

  template <class Setup>
  server_session(int fd, network::session_counters& counters, std::size_t, const Setup&)
      : session(fd, counters) {}

  std::span<const std::byte> first() const { return {}; }

  std::span<const std::byte> received(std::span<const std::byte> data) {
    counters().bytes.add(data.size());
    counters().reads.add(1);
    answer_.clear();
    frames_.feed(data, [this](header head, std::span<const std::byte> body) {
      const std::size_t begin = answer_.size();
      answer_.resize(begin + head.message_size());
      ++head.packet_count;
      const auto message = std::span(answer_).subspan(begin);
      head.write(message);
      std::ranges::copy(body, message.subspan(header::size).begin());
    });
    return answer_;
  }

 private:
  frames frames_;
  std::vector<std::byte> answer_;
};

/// The shared state of the client's sessions.
struct game {
  game(std::uint32_t sessions, std::uint32_t turns_each, fault injected)
      : turns(turns_each), sabotage(injected), left(sessions) {}

  const std::uint32_t turns;        ///< messages there and back, of each session
  const fault sabotage;             ///< injected into the first message of session 0
  std::atomic<std::uint32_t> left;  ///< sessions that still play
  completion_event completed;
};

/// The client's end: increments packet_count as well, and lets the body grow by a byte each turn.
class client_session : public network::session {
 public:
  static constexpr bool echoes = false;
  static constexpr bool begins = true;

  client_session(int fd, network::session_counters& counters, std::size_t index, game& played)
      : session(fd, counters),
        game_(&played),
        sabotage_(index == 0 ? played.sabotage : fault::none),
        message_(header::size + least_body) {
    fill();
  }

  std::span<const std::byte> first() {
    began_ = clock::now();
    header{least_body, 0}.write(message_);
    if (sabotage_ == fault::lose) return std::span(message_).first(message_.size() - 1);
    if (sabotage_ == fault::duplicate) {
      const std::vector<std::byte> once = message_;
      message_.insert(message_.end(), once.begin(), once.end());
    }
    return message_;
  }

  std::span<const std::byte> received(std::span<const std::byte> data) {
    counters().bytes.add(data.size());
    counters().reads.add(1);
    bool answered = false;
    frames_.feed(data, [&](header head, std::span<const std::byte> body) {
      const bool right = head.body_size == body_size_ && head.packet_count == count_ + 1 &&
                         body.front() == byte_at(0) && body.back() == byte_at(body.size() - 1);
      if (!right) [[unlikely]]
        counters().wrong.add(1);
      answered = true;
    });
    if (!answered || turns_ == game_->turns) return {};
    if (++turns_ == game_->turns) {
      finish();
      return {};
    }
    return next();
  }

 private:
  static std::byte byte_at(std::size_t offset) { return network::echo_messages::at(offset); }

  void fill() {
    for (std::size_t i = 0; i < message_.size() - header::size; ++i) {
      message_[header::size + i] = byte_at(i);
    }
  }

  std::span<const std::byte> next() {
    count_ += 2;
    if (++body_size_ > most_body) body_size_ = least_body;
    if (message_.size() < header::size + body_size_) {
      message_.resize(header::size + std::min(2 * body_size_, most_body));
      fill();
    }
    const header head{body_size_, count_};
    head.write(message_);
    return std::span(message_).first(head.message_size());
  }

  void finish() {
    counters().nanoseconds.add(
        static_cast<std::uint64_t>((clock::now() - began_) / std::chrono::nanoseconds(1)));
    counters().finished.add(1);
    // acq_rel: the last session has seen the counts of the others, and publishes them to main.
    if (game_->left.fetch_sub(1, std::memory_order_acq_rel) == 1) game_->completed.set();
  }

  game* game_;
  fault sabotage_;
  std::uint32_t body_size_ = least_body;
  std::uint32_t count_ = 0;  // packet_count of the message in transit
  std::uint32_t turns_ = 0;
  clock::time_point began_;
  frames frames_;
  std::vector<std::byte> message_;  // a longer body begins with the shorter ones
};

}  // namespace lab::ping_pong
