// SPDX-License-Identifier: Apache-2.0
// What UDP sockets and Unix datagram sockets have in common.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/open_descriptor.hpp>
#include <gyre/io/detail/request_awaiter.hpp>
#include <gyre/io/detail/stream_operations.hpp>
#include <gyre/net/datagram_batch.hpp>
#include <gyre/net/detail/datagram_operations.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace gyre::net {

/// Sends and receives datagrams on a loop. What io::stream says of its operations holds for these:
/// the three forms, who may and where, and how they end early; a datagram is sent and received as a
/// whole or not at all. Errors besides: std::errc::message_size, and what the network has told since
/// the last call (connection_refused). One pointer, movable.
class datagram_socket {
 public:
  datagram_socket(datagram_socket&&) noexcept = default;
  datagram_socket& operator=(datagram_socket&&) noexcept = default;

  /// Receives a datagram into `to`, and gives its size, which may be 0, its sender, and whether it
  /// was cut off. One system call.
  auto receive_from(std::span<std::byte> to) noexcept {
    return awaiter<detail::receiving_from>(to);
  }
  /// The same without the sender: gives the size. What is longer is cut off.
  auto receive(std::span<std::byte> to) noexcept { return awaiter<detail::receiving_one>(to); }
  /// Sends one datagram, which may be empty, and gives its size.
  auto send_to(std::span<const std::byte> bytes, const endpoint& to) noexcept {
    return awaiter<detail::sending_to>(bytes, to);
  }
  auto send_to(std::string_view text, const endpoint& to) noexcept {
    return send_to(std::as_bytes(std::span(text)), to);
  }
  /// The same to the peer that connect() has set.
  auto send(std::span<const std::byte> bytes) noexcept { return send_to(bytes, {}); }
  auto send(std::string_view text) noexcept { return send_to(text, {}); }

  /// Waits for a datagram, and receives all that there are, as far as they fit; gives how many. What
  /// was in the batch is dropped. One system call (recvmmsg), no allocation.
  auto receive_batch(datagram_batch& into) noexcept {
    return awaiter<detail::receiving_batch>(into);
  }
  /// Sends all datagrams of the batch, and gives how many; after an error batch.sent() of them have
  /// been sent. One system call (sendmmsg) unless it must wait; no allocation. The batch keeps them.
  auto send_batch(datagram_batch& batch) noexcept { return awaiter<detail::sending_batch>(batch); }

  /// Waits until there is something to receive, or room to send.
  auto wait_readable() noexcept {
    return awaiter<io::detail::waiting_for_readiness>(io::direction::read);
  }
  auto wait_writable() noexcept {
    return awaiter<io::detail::waiting_for_readiness>(io::direction::write);
  }

  /// Sets the peer: send() goes there, and only what comes from there is received. Does not wait.
  /// Throws std::system_error, as all below.
  void connect(const endpoint& peer);
  /// Takes that back.
  void disconnect();
  [[nodiscard]] endpoint local_endpoint() const { return options().local_endpoint(); }
  [[nodiscard]] endpoint peer_endpoint() const { return options().peer_endpoint(); }
  /// To ask for options and to set them, multicast groups among them. Valid until it is closed.
  [[nodiscard]] socket_ref options() const;

  [[nodiscard]] bool is_open() const noexcept { return on_ != nullptr && on_->is_open(); }
  /// -1 once it is closed.
  [[nodiscard]] int fd() const noexcept { return is_open() ? on_->fd() : -1; }
  [[nodiscard]] event_loop& loop() const;
  /// Who waits gets std::errc::operation_canceled. Idempotent.
  void close() noexcept {
    if (on_ != nullptr) on_->close();
  }
  /// Gives the descriptor up, otherwise as close().
  [[nodiscard]] unique_fd release() noexcept {
    return on_ != nullptr ? on_->release() : unique_fd();
  }

 protected:
  datagram_socket() noexcept = default;
  datagram_socket(event_loop& loop, socket served);

  const io::detail::owned_descriptor& descriptor() const noexcept { return on_; }

  template <class Operation, class... Arguments>
  io::detail::request_awaiter<Operation> awaiter(Arguments&&... arguments) noexcept {
    return io::detail::request_awaiter<Operation>(std::in_place, on_.get(),
                                                  std::forward<Arguments>(arguments)...);
  }

 private:
  io::detail::owned_descriptor on_;
};

/// Unix datagrams: not lost, not reordered. While the receiver's queue is full, send() waits on a
/// socket that is connected to it. The system does not tell when there is room for others: where an
/// address is given, sending fails with std::errc::resource_unavailable_try_again.
class unix_datagram : public datagram_socket {
 public:
  /// One that is closed.
  unix_datagram() noexcept = default;
  /// Bound to `local`, or to nothing; then it can send, and receive only if it is connected. Throws
  /// std::system_error: std::errc::address_in_use, no_such_file_or_directory.
  explicit unix_datagram(event_loop& loop, const endpoint& local = endpoint::unix_unnamed());
  /// Serves a socket that does not block.
  unix_datagram(event_loop& loop, socket served) : datagram_socket(loop, std::move(served)) {}
};

/// Two sockets connected to each other, both on `loop`. Throws std::system_error.
std::pair<unix_datagram, unix_datagram> datagram_pair(event_loop& loop);

}  // namespace gyre::net
