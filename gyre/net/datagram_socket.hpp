// SPDX-License-Identifier: Apache-2.0
// datagram_socket, unix_datagram: base of datagram sockets for coroutines, and those of Unix.
#pragma once

#include <gyre/exec/event_loop.hpp>
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

/// A datagram socket on a loop. Its operations are awaited in the forms of io::stream's (as they
/// are, by as_expected(), by with_timeout()), one that receives and one that sends at a time.
///
/// Thread-safety: as io::stream.
/// Lifetime: as io::stream; one pointer, movable, also while operations wait. Bytes and batches
/// must outlive the operation that uses them; endpoints are copied.
/// Errors: as io::stream; std::errc::message_size; ICMP errors since the last call, such as
/// connection_refused. Members that are not awaited throw std::system_error unless noexcept.
/// Complexity: one system call per operation unless it must wait, and no allocation.
class datagram_socket {
 public:
  datagram_socket(datagram_socket&&) noexcept = default;
  datagram_socket& operator=(datagram_socket&&) noexcept = default;

  /// Receives a datagram into `buffer`. Returns a received_datagram: its `size`, which may be 0,
  /// its sender `peer`, whether it was `truncated` because `buffer` is too short, and the `segment`
  /// size (see datagram).
  auto receive_from(std::span<std::byte> buffer) noexcept {
    return awaiter<detail::receive_from_operation>(buffer);
  }
  /// Receives like receive_from(), but returns only the size: whether the datagram was longer is
  /// not known.
  auto receive(std::span<std::byte> buffer) noexcept {
    return awaiter<detail::receive_operation>(buffer);
  }
  /// Sends one datagram, which may be empty, and returns its size.
  auto send_to(std::span<const std::byte> bytes, const endpoint& peer) noexcept {
    return awaiter<detail::send_to_operation>(bytes, peer);
  }
  auto send_to(std::string_view text, const endpoint& peer) noexcept {
    return send_to(std::as_bytes(std::span(text)), peer);
  }
  /// Sends like send_to(), to the peer that connect() has set.
  auto send(std::span<const std::byte> bytes) noexcept { return send_to(bytes, {}); }
  auto send(std::string_view text) noexcept { return send_to(text, {}); }

  /// Clears the batch, waits for a datagram, and receives all that are there and fit into the
  /// batch (recvmmsg); returns their number.
  auto receive_batch(datagram_batch& batch) noexcept {
    return awaiter<detail::receive_batch_operation>(batch);
  }
  /// Sends the datagrams of the batch that have not been sent yet (sendmmsg), and returns
  /// batch.size(). After an error, batch.sent() datagrams have been sent, and another call
  /// continues with the datagram that failed; clear() drops the rest.
  auto send_batch(datagram_batch& batch) noexcept {
    return awaiter<detail::send_batch_operation>(batch);
  }

  /// Waits until there is something to receive, or room to send.
  auto wait_readable() noexcept { return awaiter<io::detail::wait_operation>(io::direction::read); }
  /// Waits until there is room to send.
  auto wait_writable() noexcept {
    return awaiter<io::detail::wait_operation>(io::direction::write);
  }

  /// Sets the peer, for send() and as the only sender to receive from. Does not wait.
  void connect(const endpoint& peer);
  /// Removes the peer that connect() has set.
  void disconnect();
  [[nodiscard]] endpoint local_endpoint() const { return options().local_endpoint(); }
  [[nodiscard]] endpoint peer_endpoint() const { return options().peer_endpoint(); }
  /// Returns a reference for options, which include multicast groups. Valid until the socket is
  /// closed.
  [[nodiscard]] socket_ref options() const;

  [[nodiscard]] bool is_open() const noexcept {
    return descriptor_ != nullptr && descriptor_->is_open();
  }
  /// Returns the descriptor, or -1 once the socket is closed.
  [[nodiscard]] int fd() const noexcept { return is_open() ? descriptor_->fd() : -1; }
  [[nodiscard]] event_loop& loop() const;
  /// Closes the socket. Operations that wait end with io::errc::closed. Idempotent.
  void close() noexcept {
    if (descriptor_ != nullptr) descriptor_->close();
  }
  /// Does what close() does, but returns the descriptor instead of closing it.
  [[nodiscard]] unique_fd release() noexcept {
    return descriptor_ != nullptr ? descriptor_->release() : unique_fd();
  }

 protected:
  datagram_socket() noexcept = default;
  datagram_socket(event_loop& loop, socket native_socket);

  const io::detail::owned_descriptor& descriptor() const noexcept { return descriptor_; }

  template <class Operation, class... Arguments>
  io::detail::request_awaiter<Operation> awaiter(Arguments&&... arguments) noexcept {
    return io::detail::request_awaiter<Operation>(std::in_place, descriptor_.get(),
                                                  std::forward<Arguments>(arguments)...);
  }

 private:
  io::detail::owned_descriptor descriptor_;
};

/// A Unix datagram socket; datagrams are neither lost nor reordered. While the receiver's queue is
/// full, send() on a connected socket waits, but send_to() fails with
/// std::errc::resource_unavailable_try_again, as the kernel does not report when there is room.
/// Thread-safety, Lifetime, Errors: as datagram_socket.
class unix_datagram : public datagram_socket {
 public:
  /// Constructs a closed socket.
  unix_datagram() noexcept = default;
  /// Opens a socket that is bound to `local`. Without `local` the socket is not bound (no
  /// autobind): it can send, but gets no replies. Throws std::system_error:
  /// std::errc::address_in_use, no_such_file_or_directory.
  explicit unix_datagram(event_loop& loop, const endpoint& local = endpoint::unix_unnamed());
  /// Serves a non-blocking socket, such as one with autobind (see endpoint::unix_unnamed()).
  unix_datagram(event_loop& loop, socket native_socket)
      : datagram_socket(loop, std::move(native_socket)) {}
};

/// Makes two sockets that are connected to each other, both on `loop`. Throws std::system_error.
std::pair<unix_datagram, unix_datagram> datagram_pair(event_loop& loop);

}  // namespace gyre::net
