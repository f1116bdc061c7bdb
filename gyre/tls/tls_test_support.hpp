// SPDX-License-Identifier: Apache-2.0
// Support for the tests of TLS: contexts of an authority of their own, and pairs of streams.
#pragma once

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_context.hpp>
#include <gyre/tls/tls_stream.hpp>
#include <tests/support/tls_certificates.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace gyre::tls::test {

using gyre::test::certificate_request;
using gyre::test::issued;
using gyre::test::test_authority;

inline certificate in_memory(const issued& from) {
  return {.chain = pem::text(from.certificate), .key = pem::text(from.key)};
}

/// The authority of all tests of a program.
inline test_authority& authority() {
  static test_authority only;
  return only;
}

inline server_options serving(const certificate_request& request = {}) {
  return {.certificates = {in_memory(authority().issue(request))}};
}
inline client_options trusting() {
  return {.system_authorities = false, .authorities = {pem::text(authority().certificate())}};
}

/// Mutual TLS: a server that demands a certificate, and a client that has one.
inline server_options requiring_certificates() {
  server_options options = serving();
  options.clients = client_certificates::required;
  options.client_authorities = pem::text(authority().certificate());
  return options;
}
inline client_options showing_certificate() {
  client_options options = trusting();
  options.own_certificate = in_memory(authority().issue({.common_name = "client 1"}));
  return options;
}

/// Connected sockets on one loop.
inline std::pair<net::tcp_stream, net::tcp_stream> socket_pair(event_loop& loop) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::system_error(errno, std::generic_category());
  }
  unique_fd one(ends[0]);
  unique_fd other(ends[1]);
  return {net::tcp_stream(loop, std::move(one)), net::tcp_stream(loop, std::move(other))};
}

/// The errors of both ends of a handshake.
struct handshake_result {
  tls_stream server;
  tls_stream client;
  std::error_code server_error;
  std::error_code client_error;
  std::string client_text;
};

inline task<tls_stream> catching(task<tls_stream> work, std::error_code& error, std::string& text) {
  try {
    tls_stream made = co_await std::move(work);
    co_return made;
  } catch (const std::system_error& thrown) {
    error = thrown.code();
    text = thrown.what();
  }
  co_return tls_stream();
}

inline handshake_result shake_hands(event_loop& loop, const tls_context& server,
                                    const tls_context& client, std::string host = "localhost",
                                    const session& resumed = {}) {
  auto [server_end, client_end] = socket_pair(loop);
  handshake_result result;
  std::string server_text;
  std::tie(result.server, result.client) = sync_wait(
      loop,
      when_all(catching(accept(std::move(server_end), server), result.server_error, server_text),
               catching(connect(std::move(client_end), std::move(host), client, resumed),
                        result.client_error, result.client_text)));
  return result;
}

/// A connection whose handshake is done.
struct connection {
  explicit connection(event_loop& loop, const tls_context& server, const tls_context& client,
                      const session& resumed = {}) {
    handshake_result made = shake_hands(loop, server, client, "localhost", resumed);
    EXPECT_FALSE(made.server_error) << made.server_error.message();
    EXPECT_FALSE(made.client_error) << made.client_text;
    server_end = std::move(made.server);
    client_end = std::move(made.client);
  }
  explicit connection(event_loop& loop)
      : connection(loop, tls_context::server(serving()), tls_context::client(trusting())) {}

  tls_stream server_end;
  tls_stream client_end;
};

inline void send_raw(int fd, std::string_view bytes) {
  EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}
inline std::string take_raw(int fd) {
  std::string bytes(100'000, '\0');
  const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

/// Writes `text`, the first one of the server's, and has only the tickets arrive that go before it.
/// Gives the record of `text`, which is still to be sent from the server's socket.
inline std::string send_tickets_alone(event_loop& loop, connection& both, std::string_view text) {
  constexpr std::size_t overhead = 5 + 1 + 16;  // header, kind, and tag
  sync_wait(loop, both.server_end.write_all(text));
  const std::string records = take_raw(both.client_end.fd());
  const std::size_t tickets = records.size() - (text.size() + overhead);
  send_raw(both.server_end.fd(), std::string_view(records).substr(0, tickets));
  return records.substr(tickets);
}

/// Until the end.
inline task<std::string> read_all(tls_stream& from) {
  std::string all;
  for (;;) {
    auto came = co_await from.receive();
    if (came.empty()) co_return all;
    all += came.text();
  }
}

}  // namespace gyre::tls::test
