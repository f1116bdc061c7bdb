// SPDX-License-Identifier: Apache-2.0
// The echo protocol: a message circulates on each connection as long as both processes live.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/network/session.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lab::network {

/// The server's end: returns what arrives.
class echo_server : public session {
 public:
  static constexpr bool echoes = true;
  static constexpr bool begins = false;

  template <class Setup>
  echo_server(int fd, session_counters& counters, std::size_t, const Setup&)
      : session(fd, counters) {}

  std::span<const std::byte> first() const { return {}; }

  std::span<const std::byte> received(std::span<const std::byte> data) {
    counters().bytes.add(data.size());
    counters().reads.add(1);
    return data;
  }
};

/// The message, and all its rotations: each connection begins at another offset, so that bytes
/// which arrive on the wrong connection are noticed, too.
class echo_messages {
 public:
  /// With `sabotage`, connection 0 sends its message with one byte missing or repeated.
  echo_messages(std::uint32_t bytes, fault sabotage)
      : size_(bytes), sabotage_(sabotage), pattern_(2 * std::size_t{bytes} + 1) {
    for (std::size_t i = 0; i < pattern_.size(); ++i) pattern_[i] = at(i % size_);
  }

  std::uint32_t size() const { return size_; }

  /// The offset in the message at which this connection begins.
  std::uint32_t begin(std::size_t connection) const {
    return static_cast<std::uint32_t>(connection * 7919 % size_);
  }

  std::span<const std::byte> rotated(std::size_t connection) const {
    std::size_t length = size_;
    if (connection == 0 && sabotage_ == fault::lose) --length;
    if (connection == 0 && sabotage_ == fault::duplicate) ++length;
    return std::span(pattern_).subspan(begin(connection), length);
  }

  /// The byte at `offset` of the message; computed, as a look-up would cost a cache line.
  static std::byte at(std::size_t offset) {
    return static_cast<std::byte>(static_cast<std::uint32_t>(offset) * 2'654'435'761u >> 24);
  }

 private:
  std::uint32_t size_;
  fault sabotage_;
  std::vector<std::byte> pattern_;
};

/// The client's end: sends its message, then returns what arrives. The first and last byte of each
/// piece are checked against the expected part of the stream.
class echo_client : public session {
 public:
  static constexpr bool echoes = true;
  static constexpr bool begins = true;

  echo_client(int fd, session_counters& counters, std::size_t index, const echo_messages& messages)
      : session(fd, counters),
        first_(messages.rotated(index)),
        offset_(messages.begin(index)),
        size_(messages.size()) {}

  std::span<const std::byte> first() const { return first_; }

  std::span<const std::byte> received(std::span<const std::byte> data) {
    counters().bytes.add(data.size());
    counters().reads.add(1);
    bool right = data.front() == echo_messages::at(offset_);
    advance(data.size() - 1);
    right &= data.back() == echo_messages::at(offset_);
    advance(1);
    if (!right) [[unlikely]]
      counters().wrong.add(1);
    if (!answered_) [[unlikely]] {
      answered_ = true;
      counters().finished.add(1);
    }
    return data;
  }

 private:
  void advance(std::size_t bytes) {
    std::size_t offset = offset_ + bytes;
    while (offset >= size_) offset -= size_;
    offset_ = static_cast<std::uint32_t>(offset);
  }

  std::span<const std::byte> first_;
  std::uint32_t offset_;  // in the message, of the next byte to arrive
  std::uint32_t size_;
  bool answered_ = false;
};

}  // namespace lab::network
