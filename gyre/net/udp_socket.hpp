// SPDX-License-Identifier: Apache-2.0
// udp_socket: a UDP socket for coroutines.
//
//     gyre::net::udp_socket socket(loop, at);  // such as ":7000"
//     std::array<std::byte, 1500> room;
//     for (;;) {
//       auto got = co_await socket.receive_from(room);
//       co_await socket.send_to(std::span(room).first(got.size), got.peer);
//     }
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/net/datagram_socket.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <span>
#include <utility>

namespace gyre::net {

/// A UDP socket, with GSO and GRO. For multicast see options() and socket_ref::join_group(). A
/// socket that is bound to all addresses notes where each datagram arrives, and a reply to its
/// `peer` leaves from there: see endpoint::source(). options().set_packet_info(false) ends that.
/// Thread-safety, Lifetime, Errors: as datagram_socket.
class udp_socket : public datagram_socket {
 public:
  /// Constructs a closed socket.
  udp_socket() noexcept = default;
  /// Opens a socket, sets `options`, and binds it to `local`; for port 0 the kernel chooses a port.
  /// Throws std::system_error: std::errc::address_in_use, address_not_available,
  /// too_many_files_open.
  udp_socket(event_loop& loop, const endpoint& local, const socket_options& options = {});
  /// Opens an unbound socket: the kernel assigns an address at the first send or connect().
  udp_socket(event_loop& loop, address_family family);
  /// Serves a non-blocking socket.
  udp_socket(event_loop& loop, socket native_socket);

  /// Sends `bytes` to `peer`, or else to the peer of connect(), as datagrams of `segment` bytes,
  /// the last one with the rest; returns bytes.size(). Up to 64 go with one system call, by GSO
  /// (UDP_SEGMENT, Linux 4.18) or else sendmmsg(2).
  ///
  /// Errors: std::errc::invalid_argument for a segment of 0, and those of sending, after which an
  /// unknown number of the datagrams has been sent.
  /// Complexity: allocates one coroutine frame.
  [[nodiscard]] task<std::size_t> send_segments(std::span<const std::byte> bytes,
                                                std::size_t segment, endpoint peer = {});

  /// Enables GRO (UDP_GRO, Linux 5.0): the kernel joins datagrams of one peer that come together;
  /// datagram::segment and received_datagram::segment are the size of each. Then receive into 64
  /// KiB. Returns false if the kernel does not support GRO. Throws std::system_error.
  bool set_receive_offload(bool is_enabled);
};

}  // namespace gyre::net
