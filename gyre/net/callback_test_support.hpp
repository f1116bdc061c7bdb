// SPDX-License-Identifier: Apache-2.0
// Support for the tests of servers and clients with callbacks: peers that are plain sockets, on the
// thread that also runs the loop.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>
#include <tests/support/sanitizers.hpp>

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::net::test {

using namespace std::chrono_literals;

using gyre::test::unless_sanitized;

inline endpoint any_port() { return {ip_address::loopback_v4(), 0}; }

/// Turns the loop until `done`; fails the test if that takes half a minute.
template <class Done>
void turn_until(event_loop& loop, Done done) {
  const steady_time deadline = gyre::detail::monotonic_now() + 30s;
  while (!done()) {
    if (gyre::detail::monotonic_now() > deadline) FAIL() << "waited in vain";
    if (!loop.poll()) loop.run_for(100us);
  }
}

/// Turns the loop until it is idle.
inline void settle(event_loop& loop) {
  while (loop.poll()) {
  }
}

/// The peer's socket.
class peer {
 public:
  explicit peer(const endpoint& server, int receive_buffer = 0)
      : socket_(socket::open(server.family(), socket_type::stream)) {
    if (receive_buffer > 0) socket_.set_receive_buffer(static_cast<std::size_t>(receive_buffer));
    static_cast<void>(socket_.connect(server));
    pollfd waiting{socket_.fd(), POLLOUT, 0};
    EXPECT_EQ(::poll(&waiting, 1, 10'000), 1);
    EXPECT_FALSE(socket_.take_error());
  }
  explicit peer(socket accepted) : socket_(std::move(accepted)) {}

  int fd() const noexcept { return socket_.fd(); }
  void send(std::string_view bytes) const {
    EXPECT_EQ(::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void end_sending() const { socket_.shutdown(shutdown_side::send); }
  void close() { socket_.close(); }
  void reset() {
    socket_.set_linger(std::chrono::seconds(0));
    socket_.close();
  }

  /// Receives all pending bytes.
  void receive() {
    while (receive_some()) {
    }
  }
  /// Receives by one call; false if nothing was pending.
  bool receive_some() {
    std::array<char, 65536> bytes;
    if (ended) return false;
    const ssize_t count = ::recv(fd(), bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EAGAIN) return false;
    ended = count <= 0;
    if (count < 0) error = errno;
    if (!ended) text.append(bytes.data(), static_cast<std::size_t>(count));
    return !ended;
  }
  /// Receives, turning the loop, until there are `size` bytes or the end.
  const std::string& receive(event_loop& loop, std::size_t size) {
    turn_until(loop, [&] {
      receive();
      return ended || text.size() >= size;
    });
    return text;
  }
  bool receive_end(event_loop& loop) {
    receive(loop, std::string::npos);
    return ended && error == 0;
  }

  std::string text;    ///< received so far
  bool ended = false;  ///< at the end of the stream
  int error = 0;       ///< the error that ended it, or 0

 private:
  socket socket_;
};

/// A text in which missing and duplicated pieces are noticed.
inline std::string long_text(std::size_t size) {
  std::string text;
  text.reserve(size + 16);
  for (std::size_t i = 0; text.size() < size; ++i) text += std::to_string(i) + ' ';
  text.resize(size);
  return text;
}

}  // namespace gyre::net::test
