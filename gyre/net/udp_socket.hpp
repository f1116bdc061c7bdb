// SPDX-License-Identifier: Apache-2.0
// udp_socket: a UDP socket for coroutines.
//
//     gyre::net::udp_socket socket(loop, at);  // such as {gyre::net::ip_address::any_v6(), 7}
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

/// A UDP socket; datagram_socket says how it sends and receives. For multicast see
/// socket_ref::join_group(), by options().
class udp_socket : public datagram_socket {
 public:
  /// A closed socket.
  udp_socket() noexcept = default;
  /// Bound to `local`; port 0: one of the kernel's choice. `options` are set before the socket is
  /// bound. Throws std::system_error: std::errc::address_in_use, address_not_available,
  /// too_many_files_open.
  udp_socket(event_loop& loop, const endpoint& local, const socket_options& options = {});
  /// Bound to nothing yet: the kernel gives it an address with the first send or connect().
  udp_socket(event_loop& loop, address_family family);
  /// Serves a socket that does not block.
  udp_socket(event_loop& loop, socket served) : datagram_socket(loop, std::move(served)) {}

  /// Sends `bytes` to `to` (none: the peer of connect()) as datagrams of `segment` bytes, the last
  /// one with the rest; gives the size of all. Up to 64 go with one system call if the kernel cuts
  /// them (UDP_SEGMENT, Linux 4.18), else by sendmmsg(2). `bytes` must outlive the operation.
  ///
  /// Errors: std::errc::invalid_argument for a segment of 0, and those of sending.
  /// Complexity: allocates one coroutine frame.
  [[nodiscard]] task<std::size_t> send_segments(std::span<const std::byte> bytes,
                                                std::size_t segment, endpoint to = {});

  /// Lets the kernel put datagrams of one peer that come together into one, of several segments
  /// (UDP_GRO, Linux 5.0): datagram::segment and received_datagram::segment tell their size. Give
  /// it room for 64 KiB. False if the kernel cannot. Throws std::system_error.
  bool set_receive_offload(bool on);
};

}  // namespace gyre::net
