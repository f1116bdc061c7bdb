// SPDX-License-Identifier: Apache-2.0
// proxy_header: the PROXY protocol, versions 1 and 2 (W. Tarreau, "The PROXY protocol", HAProxy,
// 2020), by which a proxy names the client of a connection that it forwards.
//
//     gyre::net::tcp_server server(loop, {.proxy_protocol = {.trusted = comes_from_our_proxy}});
//     server.on_connection([](gyre::net::tcp_connection& peer) {
//       log(peer.peer_endpoint());  // the client's, not the proxy's
//     });
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace gyre::net {

/// A decoded header of the PROXY protocol.
struct proxy_header {
  /// A TLV of version 2, such as the host name that a TLS client asked for.
  struct value {
    std::uint8_t type;
    std::string bytes;
  };
  /// Types of TLVs (PP2_TYPE_…).
  static constexpr std::uint8_t alpn = 0x01, authority = 0x02, unique_id = 0x05, ssl = 0x20;

  /// The client's endpoint, and the one that it connected to; none in headers of the proxy's own
  /// connections (health checks) and of protocols without endpoints.
  endpoint source = {};
  endpoint destination = {};
  std::vector<value> values = {};
  std::size_t size = 0;  ///< bytes of the header

  /// Returns the bytes of the first TLV of a type, in this object; null if there is none.
  const std::string* find(std::uint8_t type) const noexcept;
};

/// The result of parsing: a header, nothing if more bytes are needed, or an error.
using parsed_proxy_header = std::expected<std::optional<proxy_header>, std::error_code>;

/// Strict parser of the header with which `bytes` begin: as the specification asks, nothing is
/// guessed, and a checksum is verified.
///
/// Errors: io::errc::bad_proxy_header if `bytes` do not begin with a header, proxy_header_too_long
/// for a header of more than `limit` bytes. Throws std::bad_alloc.
/// Complexity: linear in the header's size.
[[nodiscard]] parsed_proxy_header parse_proxy_header(std::span<const std::byte> bytes,
                                                     std::size_t limit = 4096);

/// Reads the header with which a stream begins; bytes after the header stay in `buffer`, for
/// read_frame() and the like. Call it only for a peer that is a proxy which you trust, as anyone
/// can forge a header, and limit its time by with_timeout(). Cancellation-safe, as read_frame().
///
/// Lifetime: the arguments must outlive the wait.
/// Errors: those of parse_proxy_header() and of receiving; io::errc::unexpected_end.
/// Complexity: allocates one coroutine frame.
[[nodiscard]] task<proxy_header> read_proxy_header(io::stream& source, io::buffer& buffer,
                                                   std::size_t limit = 4096);

/// Options of the PROXY protocol in a tcp_server.
struct proxy_protocol_options {
  /// Returns whether `peer` is a proxy that you trust and that sends headers. Anyone could forge a
  /// header, so connections of other peers are served without looking for one. Without a function,
  /// no peer is taken for a proxy. Called on the loops' threads, at the same time on several. An
  /// exception closes the connection, and goes to the loop's on_exception.
  std::function<bool(const endpoint& peer)> trusted = {};
  /// The time in which the header must come (zero: no limit), and its maximum size in bytes. A
  /// connection with a later or larger header is closed, and counted as refused; until then it
  /// counts as a connection.
  duration timeout = std::chrono::seconds{3};
  /// The largest header of version 2, in bytes; a longer one ends the connection.
  std::size_t limit = 4096;
};

}  // namespace gyre::net
