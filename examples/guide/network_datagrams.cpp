// SPDX-License-Identifier: Apache-2.0
// Guide to the network, parts 7 to 9: datagrams, names and files.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/file.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/datagram_batch.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/net/udp_client.hpp>
#include <gyre/net/udp_server.hpp>
#include <gyre/net/udp_socket.hpp>
#include <gyre/net/unix_stream.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

const gyre::net::endpoint any_port(gyre::net::ip_address::loopback_v4(), 0);

void echo_datagrams() {
  gyre::loop_thread thread;
  gyre::net::udp_server server(thread);
  server.on_datagram([](gyre::net::udp_server::channel& socket, std::span<const std::byte> bytes,
                        const gyre::net::endpoint& peer) { socket.send_to(bytes, peer); });
  server.listen(any_port);
  server.start();

  gyre::net::udp_client client(server.local_endpoint());
  if (std::optional<gyre::io::buffer> answer = client.ask("hello", 20s)) {
    std::cout << answer->text() << '\n';
  }
}

gyre::task<> echo_many(gyre::net::udp_socket& socket) {
  gyre::net::datagram_batch questions(64, 1500);
  gyre::net::datagram_batch answers(64, 1500);
  for (;;) {
    co_await socket.receive_batch(questions);
    answers.clear();
    for (const gyre::net::datagram each : questions) {
      static_cast<void>(answers.add_reference(each.bytes, each.peer));
    }
    co_await socket.send_batch(answers);
  }
}

gyre::task<> ask_for_many(gyre::event_loop& loop, gyre::net::endpoint server) {
  gyre::net::udp_socket socket(loop, any_port);
  socket.connect(server);
  std::size_t bytes = 0;
  std::array<std::byte, 1500> room;
  for (int i = 0; i < 10; ++i) co_await socket.send("datagram");
  for (int i = 0; i < 10; ++i) bytes += co_await gyre::with_timeout(socket.receive(room), 20s);
  std::cout << bytes << " bytes came back\n";
}

gyre::task<> exchange_many(gyre::event_loop& loop) {
  gyre::net::udp_socket socket(loop, any_port);
  co_await gyre::when_any(echo_many(socket), ask_for_many(loop, socket.local_endpoint()));
}

gyre::task<> look_up(gyre::event_loop& loop) {
  gyre::net::resolver names(loop);
  auto [here, itself] =
      co_await gyre::when_all(names.resolve("localhost", 80), names.resolve("192.0.2.1", "https"));
  for (const gyre::net::endpoint& each : here) {
    if (each.address().is_v4()) std::cout << each << '\n';
  }
  std::cout << itself.front() << '\n';

  auto nobody = co_await gyre::as_expected(names.resolve("two..dots", 80));
  if (!nobody) std::cout << nobody.error().message() << '\n';
}

gyre::task<> keep_a_note(gyre::event_loop& loop, std::string path) {
  auto note = co_await gyre::io::file::open(path, {.write = true, .create_new = true});
  co_await note.write_at("remember the milk\n", 0);
  co_await note.sync();

  auto [here, there] = gyre::net::stream_pair(loop);
  co_await here.send_file(note.fd(), 0, 1000);
  here.close();
  gyre::io::received sent = co_await there.receive();
  std::cout << sent.text();

  gyre::io::buffer whole = co_await gyre::io::read_whole(path);
  std::cout << whole.size() << " bytes\n";
}

int main() {
  echo_datagrams();
  gyre::loop loop;
  gyre::sync_wait(loop, exchange_many(loop));
  gyre::sync_wait(loop, look_up(loop));

  const auto path =
      std::filesystem::temp_directory_path() / ("gyre_guide_note_" + std::to_string(::getpid()));
  gyre::sync_wait(loop, keep_a_note(loop, path));
  std::filesystem::remove(path);
}
