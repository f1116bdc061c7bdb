// SPDX-License-Identifier: Apache-2.0
// Guide to the network, part 9: a server with callbacks that sends a file.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/tcp_server.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>

const gyre::net::endpoint any_port(gyre::net::ip_address::loopback_v4(), 0);

std::uint64_t size_of(const gyre::unique_fd& file) {
  struct ::stat status{};
  return ::fstat(file.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

// Returns the bytes that the server sends until it closes the connection.
std::string download(gyre::loop& loop, const gyre::net::endpoint& server) {
  std::string page;
  gyre::net::tcp_client client(loop);
  client.on_connection(
      [](gyre::net::tcp_connection& connection) { connection.send("the page, please\n"); });
  client.on_message([&](gyre::net::tcp_connection&, gyre::io::input& input) {
    page += input.text();
    input.consume_all();
  });
  client.on_close([&](gyre::net::tcp_connection&, std::error_code) { loop.stop(); });
  client.connect(server);
  loop.run();
  return page;
}

int main() {
  const std::string name = "gyre_guide_page_" + std::to_string(::getpid());
  const std::filesystem::path path = std::filesystem::temp_directory_path() / name;
  std::ofstream(path) << "a page of a book\n";

  gyre::loop loop;
  gyre::net::tcp_server server(loop);
  server.on_message([&](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    input.consume_all();
    gyre::unique_fd page(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!page) return connection.abort();
    const std::uint64_t size = size_of(page);
    connection.send(std::to_string(size) + " bytes:\n");
    // Sent in order: after the line, before the end.
    connection.send_file(std::move(page), 0, size);
    connection.close();
  });
  server.listen(any_port);
  server.start();
  std::cout << download(loop, server.local_endpoint());
  std::filesystem::remove(path);
}
