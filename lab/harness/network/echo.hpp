// SPDX-License-Identifier: Apache-2.0
// The echo protocol: a message goes round on each connection as long as both sides live.
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
  echo_server(int fd, tally& seen, std::size_t, const Setup&) : session(fd, seen) {}

  std::span<const std::byte> first() const { return {}; }

  std::span<const std::byte> received(std::span<const std::byte> data) {
    seen().bytes.add(data.size());
    seen().reads.add(1);
    return data;
  }
};

/// The message, and all its rotations: each connection begins at another place of it, so that bytes
/// which end up on the wrong connection are noticed, too.
class echo_messages {
 public:
  /// With `sabotage`, connection 0 sends its message with a byte too few or one twice.
  echo_messages(std::uint32_t bytes, mishap sabotage)
      : size_(bytes), sabotage_(sabotage), pattern_(2 * std::size_t{bytes} + 1) {
    for (std::size_t i = 0; i < pattern_.size(); ++i) pattern_[i] = at(i % size_);
  }

  std::uint32_t size() const { return size_; }

  /// Where in the message this connection begins.
  std::uint32_t begin(std::size_t connection) const {
    return static_cast<std::uint32_t>(connection * 7919 % size_);
  }

  std::span<const std::byte> rotated(std::size_t connection) const {
    std::size_t length = size_;
    if (connection == 0 && sabotage_ == mishap::lose) --length;
    if (connection == 0 && sabotage_ == mishap::duplicate) ++length;
    return std::span(pattern_).subspan(begin(connection), length);
  }

  /// The byte at that place of the message; computed, as looking it up would cost a cache line.
  static std::byte at(std::size_t place) {
    return static_cast<std::byte>(static_cast<std::uint32_t>(place) * 2'654'435'761u >> 24);
  }

 private:
  std::uint32_t size_;
  mishap sabotage_;
  std::vector<std::byte> pattern_;
};

/// The client's end: sends its message, then returns what arrives, and checks of each piece that it
/// is the part of the stream that is due, by its first and last byte.
class echo_client : public session {
 public:
  static constexpr bool echoes = true;
  static constexpr bool begins = true;

  echo_client(int fd, tally& seen, std::size_t index, const echo_messages& messages)
      : session(fd, seen),
        first_(messages.rotated(index)),
        place_(messages.begin(index)),
        size_(messages.size()) {}

  std::span<const std::byte> first() const { return first_; }

  std::span<const std::byte> received(std::span<const std::byte> data) {
    seen().bytes.add(data.size());
    seen().reads.add(1);
    bool right = data.front() == echo_messages::at(place_);
    advance(data.size() - 1);
    right &= data.back() == echo_messages::at(place_);
    advance(1);
    if (!right) [[unlikely]]
      seen().wrong.add(1);
    if (!answered_) [[unlikely]] {
      answered_ = true;
      seen().finished.add(1);
    }
    return data;
  }

 private:
  void advance(std::size_t bytes) {
    std::size_t place = place_ + bytes;
    while (place >= size_) place -= size_;
    place_ = static_cast<std::uint32_t>(place);
  }

  std::span<const std::byte> first_;
  std::uint32_t place_;  // of the message, where the next byte to arrive belongs
  std::uint32_t size_;
  bool answered_ = false;
};

}  // namespace lab::network
