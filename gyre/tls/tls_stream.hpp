// SPDX-License-Identifier: Apache-2.0
// tls_stream: a TLS connection for coroutines, made by tls::connect() or tls::accept().
//
//     auto secure = co_await gyre::tls::connect(server, context);  // such as "example.org:443"
//     co_await secure.write_all("GET / HTTP/1.0\r\n\r\n");
//     auto reply = co_await secure.receive();
//     co_await secure.shutdown();
#pragma once

#include <gyre/net/layered_stream.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/task.hpp>
#include <gyre/tls/connection_info.hpp>
#include <gyre/tls/session.hpp>
#include <gyre/tls/tls_context.hpp>

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::net {
class resolver;
}  // namespace gyre::net

namespace gyre::tls {

namespace detail {
struct stream_opener;
}  // namespace detail

/// A net::layered_stream whose layer is TLS; docs/guide/tls.md tells which members of
/// net::tcp_stream it lacks. Rarely, a write or shutdown() waits for the peer: while only a part of
/// a TLS message, such as a long session ticket, has come, OpenSSL sends nothing.
///
/// Thread-safety, Lifetime: as net::layered_stream.
/// Errors: those of net::layered_stream, and
/// - errc::truncated from reads if the connection ends without the peer's close_notify. A protocol
///   that marks the ends of its messages may ignore that between two of them.
/// - errc::bad_record, errc::refused_by_peer and the like, after which nothing can be read or
///   written. In TLS 1.3 a server's refusal of the client's certificate comes to the first read, or
///   to a write that fails because the server has gone.
///
/// Complexity: some 10 KiB of OpenSSL's for each connection, and 44 KiB within the handshake, of
/// which a server's stream holds nothing before the client's first bytes have come.
class tls_stream : public net::layered_stream {
 public:
  /// Constructs a closed stream.
  tls_stream() noexcept = default;

  /// Returns the outcome of the handshake. Throws io::errc::not_open for a stream that was never
  /// open, was moved from, or was released.
  ///
  /// Complexity: allocates the texts, and encodes the peer's certificate, at each call: keep the
  /// result.
  [[nodiscard]] connection_info info() const;
  /// Returns the newest session of a client, to be resumed later; none while the server has sent
  /// none. With TLS 1.3 it comes with the first bytes that are read, or after the handshake in a
  /// read.
  [[nodiscard]] tls::session session() const;

 private:
  friend struct detail::stream_opener;
  explicit tls_stream(net::layered_stream&& stream) noexcept
      : net::layered_stream(std::move(stream)) {}
};

/// Makes the server's handshake over an accepted connection. Its steps, like those of a client,
/// wait for their turns (loop_options::heavy_time), so that many handshakes at once leave the other
/// work of the loop its share.
///
/// Thread-safety: to be awaited on the connection's loop.
/// Lifetime: the call copies the context.
/// Errors: errc::handshake_timeout after server_options::handshake_timeout, and the other errc of
/// handshakes, with a text that says more; errc::bad_configuration for an empty context or a
/// client's; those of io::stream; gyre::operation_cancelled after a stop. The connection is then
/// closed, after an alert to the peer.
[[nodiscard]] task<tls_stream> accept(net::tcp_stream connection, const tls_context& context);

/// Makes the client's handshake over a connection to `host`, a name or an address, which goes to
/// the server (SNI) and which the certificate must be for. `previous_session`: a session with that
/// server.
///
/// Thread-safety: to be awaited on the connection's loop.
/// Lifetime: the call copies the context and the session.
/// Errors: as accept(), and those of certificates: "certificate is for a.example, not b.example";
/// errc::bad_configuration for an empty context or a server's, and for an empty `host` if the
/// certificate is to be verified. Errors of default_client() come from the call, not the await.
[[nodiscard]] task<tls_stream> connect(net::tcp_stream connection, std::string host,
                                       const tls_context& context = tls_context::default_client(),
                                       const session& previous_session = session());

namespace detail {
task<tls_stream> connect_text(net::resolver* names, std::string target, tls_context context,
                              session previous_session);
/// Does what connect() does, and offers `protocols` by ALPN if the context names none.
[[nodiscard]] task<tls_stream> connect_offering(net::tcp_stream connection, std::string host,
                                                const tls_context& context,
                                                const session& previous_session,
                                                std::vector<std::string> protocols);
}  // namespace detail

/// Connects like net::connect(), and makes the handshake: "example.org:443", "10.1.2.3:8443".
/// Errors also: those of net::connect().
template <std::convertible_to<std::string_view> Text>
[[nodiscard]] task<tls_stream> connect(const Text& target,
                                       const tls_context& context = tls_context::default_client(),
                                       const session& previous_session = session()) {
  return detail::connect_text(nullptr, std::string(std::string_view(target)), context,
                              previous_session);
}
/// Connects by a resolver, which remembers answers and must outlive the wait, and makes the
/// handshake. Otherwise does what the overload without a resolver does.
template <std::convertible_to<std::string_view> Text>
[[nodiscard]] task<tls_stream> connect(net::resolver& names, const Text& target,
                                       const tls_context& context = tls_context::default_client(),
                                       const session& previous_session = session()) {
  return detail::connect_text(&names, std::string(std::string_view(target)), context,
                              previous_session);
}

}  // namespace gyre::tls
