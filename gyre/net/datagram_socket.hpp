// SPDX-License-Identifier: Apache-2.0
// datagram_socket: base of UDP sockets and Unix datagram sockets for coroutines.
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

/// Sends and receives datagrams on a loop, each as a whole or not at all. The operations are
/// awaited in the forms of io::stream's (as they are, by as_expected(), within() a time limit), and
/// end early as those do: by a stop, by close() or by the limit. One pointer, movable.
///
/// Thread-safety: as io::stream.
/// Errors: those of io::stream, std::errc::message_size, and errors that the network has reported
/// since the last call (connection_refused).
class datagram_socket {
 public:
  datagram_socket(datagram_socket&&) noexcept = default;
  datagram_socket& operator=(datagram_socket&&) noexcept = default;

  /// Receives a datagram into `to`, and gives a received_datagram: its `size`, which may be 0, its
  /// sender `peer`, whether it was `truncated` because `to` is too short, and the `segment` size
  /// (see datagram). One system call.
  auto receive_from(std::span<std::byte> to) noexcept {
    return awaiter<detail::receive_from_operation>(to);
  }
  /// As receive_from() without the sender: gives the size. Longer datagrams are cut off.
  auto receive(std::span<std::byte> to) noexcept { return awaiter<detail::receive_operation>(to); }
  /// Sends one datagram, which may be empty, and gives its size.
  auto send_to(std::span<const std::byte> bytes, const endpoint& to) noexcept {
    return awaiter<detail::send_to_operation>(bytes, to);
  }
  auto send_to(std::string_view text, const endpoint& to) noexcept {
    return send_to(std::as_bytes(std::span(text)), to);
  }
  /// As send_to(), to the peer that connect() has set.
  auto send(std::span<const std::byte> bytes) noexcept { return send_to(bytes, {}); }
  auto send(std::string_view text) noexcept { return send_to(text, {}); }

  /// Clears the batch, waits for a datagram, and receives all that are there and fit into the
  /// batch; gives their number. One system call (recvmmsg), no allocation.
  auto receive_batch(datagram_batch& into) noexcept {
    return awaiter<detail::receive_batch_operation>(into);
  }
  /// Sends the datagrams of the batch that have not been sent yet. Gives batch.size(), as all are
  /// sent then; after an error batch.sent() of them have been. The batch keeps them until you
  /// clear() it. One system call (sendmmsg) unless it must wait; no allocation.
  auto send_batch(datagram_batch& batch) noexcept {
    return awaiter<detail::send_batch_operation>(batch);
  }

  /// Waits until there is something to receive, or room to send.
  auto wait_readable() noexcept {
    return awaiter<io::detail::waiting_for_readiness>(io::direction::read);
  }
  auto wait_writable() noexcept {
    return awaiter<io::detail::waiting_for_readiness>(io::direction::write);
  }

  /// Sets the peer, for send() and as the only sender to receive from. Does not wait. Throws
  /// std::system_error, as all members below.
  void connect(const endpoint& peer);
  /// Undoes connect().
  void disconnect();
  [[nodiscard]] endpoint local_endpoint() const { return options().local_endpoint(); }
  [[nodiscard]] endpoint peer_endpoint() const { return options().peer_endpoint(); }
  /// To read and set options, multicast groups among them. Valid until the socket is closed.
  [[nodiscard]] socket_ref options() const;

  [[nodiscard]] bool is_open() const noexcept { return on_ != nullptr && on_->is_open(); }
  /// -1 once it is closed.
  [[nodiscard]] int fd() const noexcept { return is_open() ? on_->fd() : -1; }
  [[nodiscard]] event_loop& loop() const;
  /// Operations that wait end with std::errc::operation_canceled. Idempotent.
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

/// A Unix datagram socket; datagrams are neither lost nor reordered. While the receiver's queue is
/// full, send() waits on a socket that is connected to it. Without a connection the system does not
/// tell when there is room: send_to() an address then fails with
/// std::errc::resource_unavailable_try_again.
class unix_datagram : public datagram_socket {
 public:
  /// A closed socket.
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
