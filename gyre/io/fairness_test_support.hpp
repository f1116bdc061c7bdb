// SPDX-License-Identifier: Apache-2.0
// Support for tests of fairness: a quiet connection beside busy ones. They count bytes, never time.
#pragma once

#include <gyre/io/detail/fair_queue.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

namespace gyre::io::test {

/// Counts the bytes of the busy connections between a ping and its service.
class quiet_connection {
 public:
  static constexpr std::size_t enough_pings = 24;
  /// The rest of a turn, and the visit with which it ends.
  static constexpr std::size_t most_meanwhile =
      detail::fair_queue::max_turn + detail::fair_queue::max_share;

  /// `send_ping` makes the quiet connection readable.
  explicit quiet_connection(std::function<void()> send_ping) : send_ping_(std::move(send_ping)) {}

  /// A busy connection has moved bytes. Sends a ping, after various distances from the last one, so
  /// that pings meet the loop in every part of a round.
  void busy_one_moved(std::size_t bytes) {
    moved_ += bytes;
    if (is_waiting_ || is_done() || moved_ < next_ping_) return;
    is_waiting_ = true;
    moved_before_ = moved_;
    send_ping_();
  }
  void served() {
    is_waiting_ = false;
    most_ = std::max(most_, moved_ - moved_before_);
    next_ping_ = moved_ + (pings_ * 37 % 11) * (std::size_t{100} << 10);
    ++pings_;
  }
  bool is_done() const { return pings_ >= enough_pings; }
  /// The longest wait.
  std::size_t most() const { return most_; }

 private:
  std::function<void()> send_ping_;
  bool is_waiting_ = false;
  std::size_t moved_ = 0;
  std::size_t moved_before_ = 0;
  std::size_t next_ping_ = std::size_t{24} << 20;  // when it is known which ones are busy
  std::size_t pings_ = 0;
  std::size_t most_ = 0;
};

}  // namespace gyre::io::test
