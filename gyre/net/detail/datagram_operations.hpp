// SPDX-License-Identifier: Apache-2.0
// Operations of datagram sockets, which request_awaiter awaits.
#pragma once

#include <gyre/io/detail/stream_operations.hpp>
#include <gyre/net/datagram_batch.hpp>
#include <gyre/net/detail/datagram_message.hpp>
#include <gyre/net/endpoint.hpp>

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <optional>
#include <span>

namespace gyre::net {

/// A datagram that receive_from() has stored in the caller's memory.
struct received_datagram {
  std::size_t size;     ///< the size in bytes; may be 0
  endpoint peer;        ///< the sender
  bool truncated;       ///< whether the datagram was longer than the memory
  std::size_t segment;  ///< see datagram::segment
};

namespace detail {

struct receive_operation : io::detail::counting_request<io::read_request> {
  static constexpr const char* name = "gyre::net::datagram_socket: receive";

  receive_operation(io::detail::open_descriptor* descriptor, std::span<std::byte> buffer) noexcept
      : counting_request(descriptor, buffer, nullptr) {}
};

struct receive_from_operation : io::detail::single_request<io::receive_message_request> {
  using value_type = received_datagram;
  static constexpr const char* name = "gyre::net::datagram_socket: receive";

  receive_from_operation(io::detail::open_descriptor* descriptor,
                         std::span<std::byte> buffer) noexcept
      : single_request(descriptor, header_, nullptr), buffer_(buffer) {}
  receive_from_operation(const receive_from_operation& other) noexcept
      : receive_from_operation(other.descriptor(), other.buffer_) {}

  std::optional<io::result> begin() noexcept;
  received_datagram value(io::result result) noexcept;

 private:
  std::span<std::byte> buffer_;
  msghdr header_;
  iovec piece_;
  endpoint peer_;
  control_buffer control_;
};

struct send_to_operation : io::detail::counting_request<io::send_message_request> {
  static constexpr const char* name = "gyre::net::datagram_socket: send";

  /// If `segment` is not 0, the kernel cuts the bytes into datagrams of that size.
  send_to_operation(io::detail::open_descriptor* descriptor, std::span<const std::byte> bytes,
                    const endpoint& peer, std::size_t segment = 0) noexcept
      : counting_request(descriptor, header_, nullptr),
        bytes_(bytes),
        peer_(peer),
        segment_(segment) {}
  send_to_operation(const send_to_operation& other) noexcept
      : send_to_operation(other.descriptor(), other.bytes_, other.peer_, other.segment_) {}

  std::optional<io::result> begin() noexcept;

 private:
  std::optional<io::result> send() noexcept;

  std::span<const std::byte> bytes_;
  endpoint peer_;
  std::size_t segment_;
  msghdr header_;
  iovec piece_;
  control_buffer control_;
};

struct receive_batch_operation : io::detail::counting_request<io::receive_messages_request> {
  static constexpr const char* name = "gyre::net::datagram_socket: receive_batch";

  receive_batch_operation(io::detail::open_descriptor* descriptor, datagram_batch& batch) noexcept
      : counting_request(descriptor, std::span<mmsghdr>(), nullptr), batch_(&batch) {}

  std::optional<io::result> begin() noexcept {
    messages = batch_->prepare_to_receive();
    return single_request::begin();
  }
  std::size_t value(io::result result) noexcept {
    batch_->received(result.count());
    return result.count();
  }

 private:
  datagram_batch* batch_;
};

struct send_batch_operation : io::detail::counting_request<io::send_messages_request> {
  static constexpr const char* name = "gyre::net::datagram_socket: send_batch";

  send_batch_operation(io::detail::open_descriptor* descriptor, datagram_batch& batch) noexcept
      : counting_request(descriptor, std::span<mmsghdr>(), nullptr), batch_(&batch) {}

  std::optional<io::result> begin() noexcept { return send_rest(); }
  std::optional<io::result> advance(io::result result) noexcept {
    if (!result) return result;
    batch_->sent_count_ += result.count();
    return send_rest();
  }

 private:
  std::optional<io::result> send_rest() noexcept;
  std::optional<io::result> send_some() noexcept;

  datagram_batch* batch_;
};

}  // namespace detail
}  // namespace gyre::net
