// SPDX-License-Identifier: Apache-2.0
// A UDP echo server: each datagram goes back to its sender (RFC 862), many with one system call.
//
//     udp_echo [ADDRESS:PORT]
#include <gyre/exec/loop.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/udp_server.hpp>
#include <gyre/runtime/signal_set.hpp>

#include <csignal>
#include <cstddef>
#include <iostream>
#include <span>

int main(int argc, char** argv) {
  const gyre::net::endpoint address(argc > 1 ? argv[1] : "[::]:7007");
  gyre::loop loop;

  gyre::net::udp_server server(loop, {.name = "udp_echo", .max_datagram = 65535});
  server.on_datagram([](gyre::net::udp_server::channel& socket, std::span<const std::byte> bytes,
                        const gyre::net::endpoint& peer) { socket.send_to(bytes, peer); });
  server.listen(address);
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;

  gyre::signal_set quit(loop, {SIGINT, SIGTERM},
                        [&](const gyre::signal_info&) { server.stop([&] { loop.stop(); }); });
  loop.run();
}
