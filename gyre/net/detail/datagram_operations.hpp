// SPDX-License-Identifier: Apache-2.0
// Requests of datagram sockets as Operations of request_awaiter.
#pragma once

#include <gyre/io/detail/stream_operations.hpp>
#include <gyre/net/datagram_batch.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket_options.hpp>

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <ctime>
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

/// Room for the ancillary data of a message: the size of segments, the two forms of a local
/// address, and a time, which a program may have turned on.
struct control_room {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(in_pktinfo)) +
                              CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(timespec))];
};

/// Properties of a received message.
struct message_properties {
  bool truncated;       ///< the message, or its ancillary data, so that `segment` is not known
  std::size_t segment;  ///< 0 for none
};
/// Reads the ancillary data of `message`, whose `peer` gets its source.
message_properties read_control(const msghdr& message, endpoint& peer) noexcept;
/// Has `message` leave from the source of its peer, and the kernel cut it into segments, unless
/// `segment` is 0.
void write_control(msghdr& message, control_room& room, const endpoint& peer,
                   std::size_t segment = 0) noexcept;

/// Fills a header of one piece; `peer` of no bytes is none. With `room`, to receive.
inline void set_message(msghdr& header, iovec& piece, endpoint& peer, socklen_t peer_size,
                        control_room* room = nullptr) noexcept {
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

/// Has a socket that is bound to all addresses note where each datagram arrives. Throws
/// std::system_error.
void note_sources(const socket_ref& of, const endpoint& bound);

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
  control_room control_;
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
  control_room control_;
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
