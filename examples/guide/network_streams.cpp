// SPDX-License-Identifier: Apache-2.0
// Guide to the network, parts 2 to 4 and 6: a server and its clients as coroutines.
#include <gyre/base/endian.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/input.hpp>
#include <gyre/io/received.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/framed.hpp>
#include <gyre/net/framing.hpp>
#include <gyre/net/read_frame.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/net/unix_stream.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

using namespace std::chrono_literals;

gyre::task<> echo(gyre::net::tcp_stream peer) {
  for (;;) {
    gyre::io::received data = co_await peer.receive();
    if (data.empty()) co_return;  // the peer has ended its side
    co_await peer.write_all(std::move(data));
  }
}

gyre::task<> serve(gyre::net::tcp_listener& listener) {
  auto accept_all = [&](gyre::scope& connections) -> gyre::task<> {
    for (;;) {
      gyre::net::tcp_stream peer = co_await listener.accept();
      connections.spawn(gyre::as_expected(echo(std::move(peer))));
    }
  };
  co_await gyre::with_scope(accept_all);
}

gyre::task<std::string> ask(gyre::net::endpoint server, std::string question) {
  gyre::net::tcp_stream connection = co_await gyre::net::connect(server);
  question += '\n';
  co_await connection.write_all(question);
  gyre::io::buffer answer;
  const std::size_t size = co_await connection.read_until(answer, "\n");
  co_return std::string(answer.text().substr(0, size - 1));
}

gyre::task<> write_message(gyre::io::stream& to, std::string_view text) {
  gyre::io::buffer message;
  message.append(static_cast<std::uint32_t>(text.size()));  // in network order
  message.append(text);
  co_await to.write_all(message.bytes());
}

gyre::task<std::optional<std::string>> read_message(gyre::io::stream& stream) {
  std::array<std::byte, 4> header;
  auto read = co_await gyre::as_expected(stream.read_exactly(header));
  if (!read && read.error() == gyre::io::errc::unexpected_end) co_return std::nullopt;
  if (!read) throw std::system_error(read.error());
  const auto size = gyre::load_be<std::uint32_t>(header.data());
  if (size > 1'000'000) throw std::system_error(std::make_error_code(std::errc::message_size));
  std::string text(size, '\0');
  co_await stream.read_exactly(std::as_writable_bytes(std::span(text)));
  co_return text;
}

gyre::task<> say_and_hang_up(gyre::event_loop& loop) {
  auto [one, other] = gyre::net::stream_pair(loop);
  co_await write_message(one, "hello");
  one.shutdown(gyre::net::shutdown_side::send);
  while (std::optional<std::string> text = co_await read_message(other)) std::cout << *text << '\n';
  std::cout << "and no more\n";
}

gyre::task<> be_patient(gyre::net::endpoint server) {
  gyre::net::tcp_stream connection = co_await gyre::net::connect(server);
  std::array<std::byte, 100> room;
  auto read = co_await gyre::as_expected(gyre::with_timeout(connection.read_some(room), 10ms));
  if (!read && read.error() == std::errc::timed_out) std::cout << "nothing came\n";

  auto asking = gyre::with_timeout(ask(server, "are you there?"), 2s);
  const std::string answer = co_await std::move(asking);
  std::cout << answer << '\n';
}

gyre::task<> serve_for_a_while(gyre::event_loop& loop) {
  gyre::net::tcp_listener listener(loop, {gyre::net::ip_address::loopback_v4(), 0});
  co_await gyre::when_any(serve(listener), be_patient(listener.local_endpoint()));
  std::cout << "served\n";
}

gyre::task<> print_packets(gyre::io::stream& stream) {
  const gyre::net::length_prefixed packets({.width = 2, .maximum = 1200});
  gyre::io::buffer held;  // bytes received beyond the last frame
  while (auto packet = co_await gyre::net::read_frame(stream, packets, held)) {
    std::cout << gyre::io::input(*packet).text() << '\n';
  }
}

gyre::task<> send_packets(gyre::event_loop& loop) {
  auto [one, other] = gyre::net::stream_pair(loop);
  const gyre::net::length_prefixed packets({.width = 2, .maximum = 1200});
  gyre::io::buffer out;
  packets.encode(out, "one packet");
  packets.encode(out, "and another");
  co_await one.write_all(out.bytes());
  one.shutdown(gyre::net::shutdown_side::send);
  co_await print_packets(other);
}

gyre::task<> greet_guests(gyre::net::unix_stream peer) {
  gyre::net::framed lines(std::move(peer), gyre::net::delimited("\n"));
  while (auto name = co_await lines.next()) {  // a std::string_view
    co_await lines.send("hello, " + std::string(*name));
  }
}

gyre::task<> be_a_guest(gyre::net::unix_stream peer) {
  gyre::net::framed lines(std::move(peer), gyre::net::delimited("\n"));
  co_await lines.send("Ada");
  const auto greeting = co_await lines.next();
  std::cout << greeting.value() << '\n';
}

gyre::task<> connect_by_text(gyre::event_loop& loop) {
  gyre::net::tcp_listener listener(loop, "localhost:0");  // or ":7000", or "[::1]:http"
  const std::string server = listener.local_endpoint().to_string();
  const auto peer = co_await gyre::net::connect(server);  // or "example.org:https"
  std::cout << "connected to " << peer.peer_endpoint().address() << '\n';
}

int main() {
  gyre::loop loop;
  gyre::sync_wait(loop, say_and_hang_up(loop));
  gyre::sync_wait(loop, connect_by_text(loop));
  auto [one, other] = gyre::net::stream_pair(loop);
  auto party = gyre::when_all(greet_guests(std::move(one)), be_a_guest(std::move(other)));
  gyre::sync_wait(loop, std::move(party));
  gyre::sync_wait(loop, serve_for_a_while(loop));
  gyre::sync_wait(loop, send_packets(loop));
}
