// SPDX-License-Identifier: Apache-2.0
// Serves the files of a folder by GET of HTTP/1.0. The kernel sends them (sendfile); the program
// never sees their bytes.
//
//     file_server FOLDER [ADDRESS:PORT]
#include <chrono>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include <gyre/exec/runtime.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/file.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/task.hpp>

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// The path within the folder that "GET /path HTTP/1.0" asks for, if it asks for one, and that does
// not lead out of it. (Links in the folder do, where whoever put them there wants it.)
std::optional<fs::path> requested_path(std::string_view request) {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  if (!line.starts_with("GET /") || line.contains('\0')) return {};
  const std::size_t end = line.find(" HTTP/1.", 5);
  if (end == line.npos) return {};
  fs::path path = fs::path(line.substr(5, end - 5)).relative_path().lexically_normal();
  if (!path.has_filename()) path /= "index.html";
  if (*path.begin() == "..") return {};
  return path;
}

gyre::task<> refuse(gyre::net::tcp_stream& client, std::string_view status) {
  const std::string answer = "HTTP/1.0 " + std::string(status) + "\r\nContent-Length: 0\r\n\r\n";
  co_await client.write_all(answer);
}

gyre::task<> answer(gyre::net::tcp_stream client, fs::path folder) {
  gyre::io::buffer request;
  const std::size_t size = co_await client.read_until(request, "\r\n\r\n", 8192).within(10s);
  const std::optional<fs::path> path = requested_path(request.text().substr(0, size));
  if (!path) {
    co_await refuse(client, "400 Bad Request");
    co_return;
  }

  auto opened = co_await gyre::as_expected(gyre::io::file::open(folder / *path));
  if (!opened) {
    co_await refuse(client, "404 Not Found");
    co_return;
  }
  const struct ::stat status = co_await opened->status();
  if (!S_ISREG(status.st_mode)) {
    co_await refuse(client, "404 Not Found");
    co_return;
  }

  const auto length = static_cast<std::size_t>(status.st_size);
  const std::string header =
      "HTTP/1.0 200 OK\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
  co_await client.write_all(header);
  co_await client.send_file(opened->fd(), 0, length);
}

gyre::task<> serve(gyre::runtime& rt, gyre::net::endpoint at, fs::path folder) {
  gyre::loop& loop = rt.loops()[0];
  gyre::net::tcp_listener listener(loop, at);
  std::cout << "listening on " << listener.local_endpoint() << std::endl;
  for (;;) {
    gyre::net::tcp_stream client = co_await listener.accept();
    // What has begun when SIGTERM comes is finished.
    rt.spawn(loop, gyre::as_expected(answer(std::move(client), folder)),
             gyre::shutdown_phase::force);
  }
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: file_server FOLDER [ADDRESS:PORT]\n";
    return 2;
  }
  const fs::path folder = argv[1];
  const gyre::net::endpoint at(argc > 2 ? argv[2] : "[::]:8080");
  return gyre::runtime::main({.loops = 1},
                             [&](gyre::runtime& rt) { return serve(rt, at, folder); });
}
