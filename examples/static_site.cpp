// SPDX-License-Identifier: Apache-2.0
// Serves the files of a folder by HTTP: ranges, conditional requests, lists of directories,
// precompressed files. Texts of the program's own, such as the lists, are compressed.
//
//     static_site FOLDER [ADDRESS:PORT]
#include <gyre/http/compress.hpp>
#include <gyre/http/file_server.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/task.hpp>

#include <iostream>
#include <string>

gyre::task<> serve(gyre::runtime& rt, std::string folder, gyre::net::endpoint address) {
  gyre::http::server server(rt.loops(), address);
  server.use(gyre::http::compress({.min_size = 2048}));
  const gyre::http::file_server_options options{.list_directories = true, .precompressed = true};
  server.get("/{path...}", gyre::http::file_server(folder, options));
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;

  // Downloads that have begun before SIGTERM have five seconds to end.
  auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, [&] { return server.stop_async(); });
  co_await rt.drained();
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: static_site FOLDER [ADDRESS:PORT]\n";
    return 2;
  }
  const char* address = argc > 2 ? argv[2] : "[::]:8080";
  return gyre::runtime::main([&](gyre::runtime& rt) { return serve(rt, argv[1], address); });
}
