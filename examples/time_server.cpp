// SPDX-License-Identifier: Apache-2.0
// A server of the time protocol (RFC 868): sends the seconds since 1900 to each TCP connection, and
// in answer to each UDP datagram.
//
//     time_server [ADDRESS:PORT]
#include <gyre/exec/loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/udp_server.hpp>
#include <gyre/runtime/signal_set.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <span>

using namespace std::chrono_literals;

gyre::io::buffer seconds_since_1900() {
  constexpr auto from_1900_to_1970 = std::chrono::days(25567);
  const auto now = std::chrono::system_clock::now().time_since_epoch() + from_1900_to_1970;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now).count();
  gyre::io::buffer told;
  told.append(static_cast<std::uint32_t>(seconds));  // the most significant byte first
  return told;
}

int main(int argc, char** argv) {
  const gyre::net::endpoint address(argc > 1 ? argv[1] : "[::]:7037");
  gyre::loop loop;

  gyre::net::tcp_server by_tcp(loop);
  by_tcp.on_connection([](gyre::net::tcp_connection& asking) {
    asking.send(seconds_since_1900());
    asking.close();
  });
  by_tcp.listen(address);
  by_tcp.start();

  gyre::net::udp_server by_udp(loop);
  by_udp.on_datagram(
      [](gyre::net::udp_server::channel& socket, std::span<const std::byte>,
         const gyre::net::endpoint& peer) { socket.send_to(seconds_since_1900().bytes(), peer); });
  by_udp.listen(address);
  by_udp.start();
  std::cout << "listening on " << by_tcp.local_endpoint() << " and, by UDP, on "
            << by_udp.local_endpoint() << std::endl;

  gyre::signal_set quit(loop, {SIGINT, SIGTERM}, [&](const gyre::signal_info&) {
    by_udp.stop();
    by_tcp.stop(2s, [&] { loop.stop(); });
  });
  loop.run();
}
