// SPDX-License-Identifier: Apache-2.0
// A SOCKS 5 proxy without authentication (RFC 1928): CONNECT to IPv4 and IPv6 addresses and to
// names, which are looked up without blocking.
//
//     socks5_proxy [ADDRESS:PORT]
#include <gyre/io/buffer.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <iostream>
#include <span>
#include <string>
#include <system_error>
#include <utility>

using namespace std::chrono_literals;
using gyre::task;
using gyre::net::ip_address;
using gyre::net::tcp_stream;

enum class outcome : std::uint8_t {
  connected = 0,
  failed = 1,
  no_network = 3,
  no_host = 4,
  refused = 5,
  no_command = 7,
  no_kind_of_address = 8,
};
enum class kind_of_address : std::uint8_t { v4 = 1, name = 3, v6 = 4 };

outcome outcome_of(std::error_code error) {
  if (error == std::errc::connection_refused) return outcome::refused;
  if (error == std::errc::network_unreachable) return outcome::no_network;
  if (error == std::errc::host_unreachable) return outcome::no_host;
  if (error == std::errc::operation_not_supported) return outcome::no_command;
  if (error == std::errc::address_family_not_supported) return outcome::no_kind_of_address;
  return error.category() == gyre::net::resolve_category() ? outcome::no_host : outcome::failed;
}

gyre::io::buffer reply(outcome how, const ip_address& bound = {}, std::uint16_t port = 0) {
  const auto kind = bound.is_v4() ? kind_of_address::v4 : kind_of_address::v6;
  const std::array head{std::uint8_t{5}, std::to_underlying(how), std::uint8_t{0},
                        std::to_underlying(kind)};
  gyre::io::buffer told;
  told.append(std::as_bytes(std::span(head)));
  told.append(std::as_bytes(bound.bytes()));
  told.append(port);
  return told;
}

std::system_error failure(std::errc why) { return std::system_error(std::make_error_code(why)); }

// Fills an array or a string.
template <class Bytes>
task<Bytes> read(tcp_stream& from, Bytes room = {}) {
  co_await from.read_exactly(std::as_writable_bytes(std::span(room)));
  co_return room;
}

task<std::string> read_host(tcp_stream& from, kind_of_address kind) {
  if (kind == kind_of_address::v4) {
    const auto bytes = co_await read<ip_address::v4_bytes>(from);
    co_return ip_address(bytes).to_string();
  }
  if (kind == kind_of_address::v6) {
    const auto bytes = co_await read<ip_address::v6_bytes>(from);
    co_return ip_address(bytes).to_string();
  }
  if (kind != kind_of_address::name) throw failure(std::errc::address_family_not_supported);
  const auto length = co_await read<std::array<std::uint8_t, 1>>(from);
  co_return co_await read(from, std::string(length[0], '\0'));
}

struct destination {
  std::string host;
  std::uint16_t port;
};

// Whether the client accepts a proxy without authentication.
task<bool> agree(tcp_stream& client) {
  const auto greeting = co_await read<std::array<std::uint8_t, 2>>(client);
  const auto methods = co_await read(client, std::string(greeting[1], '\0'));
  const bool agreed = greeting[0] == 5 && methods.contains('\0');
  const std::array<std::byte, 2> choice{std::byte{5}, agreed ? std::byte{0} : std::byte{0xff}};
  co_await client.write_all(choice);
  co_return agreed;
}

task<destination> read_request(tcp_stream& client) {
  const auto head = co_await read<std::array<std::uint8_t, 4>>(client);
  std::string host = co_await read_host(client, kind_of_address{head[3]});
  const auto port = co_await read<std::array<std::uint8_t, 2>>(client);
  if (head[1] != 1) throw failure(std::errc::operation_not_supported);
  co_return destination{std::move(host), static_cast<std::uint16_t>(port[0] << 8 | port[1])};
}

task<tcp_stream> open(tcp_stream& client, gyre::net::resolver& names) {
  const destination wanted = co_await gyre::with_timeout(read_request(client), 10s);
  auto connecting = gyre::net::connect(names, wanted.host, wanted.port);
  co_return co_await gyre::with_timeout(std::move(connecting), 30s);
}

task<> forward(tcp_stream& from, tcp_stream& to) {
  for (;;) {
    auto data = co_await from.receive();
    if (data.empty()) break;
    co_await to.write_all(std::move(data));
  }
  to.shutdown(gyre::net::shutdown_side::send);
}

task<> serve(tcp_stream client, gyre::net::resolver& names) {
  const bool agreed = co_await gyre::with_timeout(agree(client), 10s);
  if (!agreed) co_return;
  auto server = co_await gyre::as_expected(open(client, names));
  if (!server) {
    const gyre::io::buffer refusal = reply(outcome_of(server.error()));
    co_await client.write_all(refusal.bytes());
    co_return;
  }
  const gyre::net::endpoint bound = server->local_endpoint();
  const gyre::io::buffer success = reply(outcome::connected, bound.address(), bound.port());
  co_await client.write_all(success.bytes());
  co_await gyre::when_all(forward(client, *server), forward(*server, client));
}

task<> serve_all(gyre::event_loop& loop, gyre::net::endpoint address) {
  gyre::net::resolver names(loop);
  gyre::net::tcp_listener listener(loop, address);
  std::cout << "listening on " << listener.local_endpoint() << std::endl;
  auto accept_each = [&](gyre::scope& connections) -> task<> {
    for (;;) {
      auto client = co_await listener.accept();
      connections.spawn(gyre::as_expected(serve(std::move(client), names)));
    }
  };
  co_await gyre::with_scope(accept_each);  // waits for all who use the resolver
}

int main(int argc, char** argv) {
  const char* address = argc > 1 ? argv[1] : "[::1]:1080";
  return gyre::runtime::main({.loops = 1},
                             [&](gyre::runtime& rt) { return serve_all(rt.loops()[0], address); });
}
