// SPDX-License-Identifier: Apache-2.0
// Guide to the network, part 9: descriptors passed over a Unix socket.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/tcp_server.hpp>

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>

// A file without a name: only a process that gets its descriptor can read it.
gyre::unique_fd secret_file(std::string_view content) {
  std::string name = std::filesystem::temp_directory_path() / "gyre_guide_XXXXXX";
  gyre::unique_fd file(::mkstemp(name.data()));
  std::filesystem::remove(name);
  if (::write(file.get(), content.data(), content.size()) < 0) return {};
  return file;
}

std::string beginning_of(const gyre::unique_fd& file) {
  std::array<char, 100> text{};
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "nothing\n";
}

int main() {
  const std::string name = "gyre_guide_socket_" + std::to_string(::getpid());
  const std::filesystem::path path = std::filesystem::temp_directory_path() / name;
  const auto at = gyre::net::endpoint::unix_path(path.string());

  gyre::loop loop;
  gyre::net::tcp_server server(loop, {.connections = {.fd_limit = 4}});
  server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    input.consume_all();
    for (const gyre::unique_fd& each : connection.take_fds())
      connection.send("it says: " + beginning_of(each));
    connection.close();
  });
  server.listen(at);
  server.start();

  const gyre::unique_fd file = secret_file("remember the milk\n");
  gyre::net::tcp_client client(loop);
  client.on_connection([&](gyre::net::tcp_connection& reader) {
    const int fd = file.get();
    reader.send_fds("read this\n", {&fd, 1});
  });
  client.on_message([](gyre::net::tcp_connection&, gyre::io::input& input) {
    std::cout << input.text();
    input.consume_all();
  });
  client.on_close([&](gyre::net::tcp_connection&, std::error_code) { loop.stop(); });
  client.connect(at);
  loop.run();
  std::filesystem::remove(path);
}
