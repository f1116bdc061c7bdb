// SPDX-License-Identifier: Apache-2.0
// udp_server_options: the settings and counters of a udp_server.
#pragma once

#include <gyre/metrics/writable.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace gyre::net {

/// Options of a udp_server, fixed when it is constructed.
struct udp_server_options {
  /// The name of the server, for logs and metrics.
  std::string name = "udp_server";
  /// The maximum number of datagrams per system call, clamped to 1 to 1024. A socket holds batch *
  /// (max_datagram + 344) bytes.
  std::size_t batch = 32;
  /// The size of the longest datagram, in bytes. Longer ones are dropped and counted.
  std::size_t max_datagram = 2048;
  /// The maximum number of bytes of replies that may wait at one socket; each reply counts 136
  /// bytes more. Further replies are refused.
  std::size_t output_limit = std::size_t{4} << 20;
  /// The sizes of the kernel's buffers (SO_RCVBUF and SO_SNDBUF); 0 stands for the system's
  /// defaults. A Unix server's send buffer also holds datagrams that its clients have not read, so
  /// that many clients need a large one.
  int receive_buffer = 0;
  /// The size of the kernel's buffer of sent datagrams: see `receive_buffer`.
  int send_buffer = 0;
  /// Whether to set SO_REUSEADDR.
  bool reuse_address = false;
  /// Whether to set IPV6_V6ONLY: an IPv6 socket then gets no datagrams of IPv4.
  bool ipv6_only = false;
  /// Whether a socket that is bound to all addresses notes at which of them each datagram arrives,
  /// as the source() of its peer, and a reply to that peer leaves from there. Costs two system
  /// calls for a socket, and 32 to 72 bytes of ancillary data for a datagram and for its reply.
  /// Otherwise the kernel chooses the address of replies: peers that asked another address of this
  /// machine drop them.
  bool packet_info = true;
};

/// Counters since the construction of a server.
struct udp_server_metrics {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t truncated = 0;  ///< longer than max_datagram, dropped
  std::uint64_t refused = 0;    ///< replies above output_limit, or to a full Unix socket
  std::uint64_t errors = 0;     ///< replies that the kernel refused, and receives that failed
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const udp_server_metrics& counts);

}  // namespace gyre::net
