// SPDX-License-Identifier: Apache-2.0
// udp_client: a blocking UDP (or Unix datagram) client for tools and tests, without a loop.
//
//     gyre::net::udp_client client(server);
//     std::optional<gyre::io::buffer> answer = client.ask("time?", time_limit);
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/net/endpoint.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace gyre::net {

/// A connected datagram socket whose calls block the thread. Unlike tcp_client it has no loop and
/// no callbacks; on a loop's thread use udp_socket or udp_server instead.
///
/// Thread-safety: one thread at a time.
/// Errors: std::system_error; signals (EINTR) end no call.
/// Complexity: one system call for send() and receive(), and one more for each wait; receive() uses
/// 64 KiB of the stack.
class udp_client {
 public:
  /// Connects to `server`, from `local`, or from an address that the kernel chooses.
  explicit udp_client(const endpoint& server, const endpoint& local = {});

  /// Sends one datagram; waits only for room in the kernel. Errors: std::errc::connection_refused
  /// if an earlier datagram found no receiver, message_size if the datagram is too long.
  void send(std::span<const std::byte> bytes);
  void send(std::string_view text) { send(std::as_bytes(std::span(text))); }
  /// Waits for a datagram of the server, of up to 64 KiB, perhaps empty. Returns nothing if none
  /// comes within `timeout`; with zero, does not wait. Errors: std::errc::connection_refused;
  /// std::bad_alloc.
  std::optional<io::buffer> receive(duration timeout);
  /// Drops earlier replies and errors, sends `question`, and returns the reply, or nothing.
  std::optional<io::buffer> ask(std::span<const std::byte> question, duration timeout);
  std::optional<io::buffer> ask(std::string_view question, duration timeout) {
    return ask(std::as_bytes(std::span(question)), timeout);
  }

  endpoint local_endpoint() const;
  int fd() const noexcept { return fd_.get(); }

 private:
  unique_fd fd_;
};

}  // namespace gyre::net
