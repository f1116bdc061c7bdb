// SPDX-License-Identifier: Apache-2.0
// Requests of datagram sockets as Operations of request_awaiter.
#pragma once

#include <gyre/io/detail/stream_operations.hpp>
#include <gyre/net/datagram_batch.hpp>
#include <gyre/net/endpoint.hpp>

#include <sys/socket.h>

#include <optional>

namespace gyre::net {

/// A datagram that receive_from() has put into the caller's memory.
struct received_datagram {
  std::size_t size;     ///< may be 0
  endpoint peer;        ///< who sent it
  bool truncated;       ///< it was longer than there was room
  std::size_t segment;  ///< as datagram::segment
};

namespace detail {

/// Room for the ancillary data of a message: the size of segments.
struct segment_control {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int))];
};
/// The segment size in `message`; 0 for none.
std::size_t received_segment(const msghdr& message) noexcept;
/// Makes the kernel cut the bytes of `message` into segments.
void request_segment(msghdr& message, segment_control& room, std::size_t segment) noexcept;

/// Fills a header of one piece; `peer` of no bytes is none. With `room`, to receive a segment size.
inline void set_message(msghdr& header, iovec& piece, endpoint& peer, socklen_t peer_size,
                        segment_control* room = nullptr) noexcept {
  header = {};
  if (peer_size > 0) {
    header.msg_name = peer.data();
    header.msg_namelen = peer_size;
  }
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (room == nullptr) return;
  header.msg_control = room->bytes;
  header.msg_controllen = sizeof room->bytes;
}

/// sendmmsg(2) for Unix sockets that are not connected, which are not notified when a receiver's
/// queue has room again: epoll reports that the sender's buffer has room. So they never wait.
io::result send_without_waiting(int fd, std::span<mmsghdr> messages) noexcept;

struct receive_operation : io::detail::counting_request<io::read_request> {
  static constexpr const char* name = "gyre::net::datagram_socket: receive";

  receive_operation(io::detail::open_descriptor* on, std::span<std::byte> to) noexcept
      : counting_request(on, to, nullptr) {}
};

struct receive_from_operation : io::detail::single_request<io::receive_message_request> {
  using value_type = received_datagram;
  static constexpr const char* name = "gyre::net::datagram_socket: receive";

  receive_from_operation(io::detail::open_descriptor* on, std::span<std::byte> to) noexcept
      : single_request(on, header_, nullptr), to_(to) {}
  receive_from_operation(const receive_from_operation& other) noexcept
      : receive_from_operation(other.descriptor(), other.to_) {}

  std::optional<io::result> begin() noexcept;
  received_datagram value(io::result result) noexcept;

 private:
  std::span<std::byte> to_;
  msghdr header_;
  iovec piece_;
  endpoint peer_;
  segment_control control_;
};

struct send_to_operation : io::detail::counting_request<io::send_message_request> {
  static constexpr const char* name = "gyre::net::datagram_socket: send";

  /// With a segment, the kernel cuts the bytes into datagrams of that size.
  send_to_operation(io::detail::open_descriptor* on, std::span<const std::byte> bytes,
                    const endpoint& to, std::size_t segment = 0) noexcept
      : counting_request(on, header_, nullptr), bytes_(bytes), peer_(to), segment_(segment) {}
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
  segment_control control_;
};

struct receive_batch_operation : io::detail::counting_request<io::receive_messages_request> {
  static constexpr const char* name = "gyre::net::datagram_socket: receive_batch";

  receive_batch_operation(io::detail::open_descriptor* on, datagram_batch& into) noexcept
      : counting_request(on, std::span<mmsghdr>(), nullptr), into_(&into) {}

  std::optional<io::result> begin() noexcept {
    messages = into_->prepare_to_receive();
    return single_request::begin();
  }
  std::size_t value(io::result result) noexcept {
    into_->received(result.count());
    return result.count();
  }

 private:
  datagram_batch* into_;
};

struct send_batch_operation : io::detail::counting_request<io::send_messages_request> {
  static constexpr const char* name = "gyre::net::datagram_socket: send_batch";

  send_batch_operation(io::detail::open_descriptor* on, datagram_batch& batch) noexcept
      : counting_request(on, std::span<mmsghdr>(), nullptr), batch_(&batch) {}

  std::optional<io::result> begin() noexcept { return send_rest(); }
  std::optional<io::result> advance(io::result result) noexcept {
    if (!result) return result;
    batch_->sent_ += result.count();
    return send_rest();
  }

 private:
  std::optional<io::result> send_rest() noexcept;
  std::optional<io::result> send_some() noexcept;

  datagram_batch* batch_;
};

}  // namespace detail
}  // namespace gyre::net
