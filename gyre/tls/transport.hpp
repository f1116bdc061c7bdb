// SPDX-License-Identifier: Apache-2.0
// server_transport, client_transport: TLS for the callbacks of net::tcp_server and net::tcp_client.
//
//     gyre::net::tcp_server_options options;
//     options.transport = gyre::tls::server_transport(context);
//     gyre::net::tcp_server server(loop, at, options);  // such as ":8443"
//     server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
//       connection.send(input.bytes());  // in plain: the transport encrypts
//       input.consume_all();
//     });
#pragma once

#include <gyre/net/endpoint.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/tls/connection_info.hpp>
#include <gyre/tls/tls_context.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre::tls {

/// Called on the loop of a server, at the same time on several, when a handshake has failed: `text`
/// says more than `reason`, such as the reason why a certificate was refused. Peers that are not
/// clients cause such errors all day. Exceptions go to the loop's on_exception.
using handshake_failure_handler =
    std::function<void(const net::endpoint& peer, std::error_code reason, std::string_view text)>;

/// Makes a transport for net::tcp_server_options::transport, and for http::server_options.
/// Connections begin when their handshakes are done; their callbacks get plain bytes, and send
/// them.
///
/// - close() and shutdown_send() send close_notify before the FIN. The peer's close_notify counts
///   as its FIN. A FIN without it ends the connection with errc::truncated.
/// - Output that waits is encrypted when it can be sent. Water marks and limits count it as it is,
///   plain or encrypted. send_file() reads and encrypts 64 KiB at a time; send_fds() is refused.
/// - Failed handshakes are counted in tcp_server_metrics.
///
/// A connection whose sending fails ends with errc::refused_by_peer if the peer has said why.
///
/// Errors: std::system_error (errc::bad_configuration) for an empty context or a client's.
/// Complexity: some 10 KiB of OpenSSL's for each connection, and 44 KiB within the handshake, which
/// count in tcp_server_options::memory_limit. It has no memory before the peer's first bytes. No
/// buffers while it is idle. Handshakes take turns: see loop_options::heavy_time.
[[nodiscard]] std::shared_ptr<const net::transport> server_transport(
    tls_context context, handshake_failure_handler on_handshake_failed = {});

/// Makes a transport for net::tcp_client_options::transport. The certificate must be for `host` or,
/// if `host` is empty, for the name or address that the client connects to. A failed handshake is a
/// failed attempt to connect. The client offers the session of its last connection to the host,
/// once.
///
/// Errors: std::system_error (errc::bad_configuration) for an empty context or a server's; those of
/// default_client().
[[nodiscard]] std::shared_ptr<const net::transport> client_transport(
    tls_context context = tls_context::default_client(), std::string host = {});

/// Returns the outcome of the connection's handshake; none if its transport is not TLS.
///
/// Thread-safety: the connection's loop.
/// Complexity: that of tls_stream::info().
[[nodiscard]] std::optional<connection_info> info_of(const net::tcp_connection& connection);
/// Returns the outcome of the layer's handshake; none if the layer is not TLS.
[[nodiscard]] std::optional<connection_info> info_of(const net::layer& secure);

}  // namespace gyre::tls
