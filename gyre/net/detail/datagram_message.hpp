// SPDX-License-Identifier: Apache-2.0
// The header of a datagram for recvmsg(2) and sendmsg(2), and its ancillary data: the size of
// segments, and the local address.
#pragma once

#include <gyre/io/request.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket_options.hpp>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <ctime>
#include <span>

namespace gyre::net::detail {

/// Room for the ancillary data of a message: the size of segments, the two forms of a local
/// address, and a time, which a program may have turned on.
struct control_buffer {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(in_pktinfo)) +
                              CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(timespec))];
};

/// The properties of a received message.
struct message_properties {
  bool truncated;       ///< whether the message or its ancillary data was cut off; see `segment`
  std::size_t segment;  ///< the size of the segments; 0: none, or cut off
};
/// Reads the ancillary data of `message`, and sets the source of `peer` to the local address in it.
message_properties read_control(const msghdr& message, endpoint& peer) noexcept;
/// Makes the kernel send `message` from the source of `peer`, and cut it into segments unless
/// `segment` is 0.
void write_control(msghdr& message, control_buffer& buffer, const endpoint& peer,
                   std::size_t segment = 0) noexcept;

/// Fills a header of one piece; a `peer_size` of 0 means no peer. `buffer` receives ancillary data.
inline void set_message(msghdr& header, iovec& piece, endpoint& peer, socklen_t peer_size,
                        control_buffer* buffer = nullptr) noexcept {
  header = {};
  if (peer_size > 0) {
    header.msg_name = peer.data();
    header.msg_namelen = peer_size;
  }
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (buffer == nullptr) return;
  header.msg_control = buffer->bytes;
  header.msg_controllen = sizeof buffer->bytes;
}

/// Makes a socket that is bound to all addresses report where each datagram arrives. Throws
/// std::system_error.
void note_sources(const socket_ref& socket, const endpoint& local);

}  // namespace gyre::net::detail
