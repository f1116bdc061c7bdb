// SPDX-License-Identifier: Apache-2.0
// An HTTP server with one route, on all processors, that ends in good order.
//
//     hello_http [ADDRESS:PORT]
#include <gyre/http/server.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/task.hpp>

#include <iostream>

gyre::task<> serve(gyre::runtime& rt, gyre::net::endpoint address) {
  gyre::http::server server(rt.loops(), address);
  server.get("/hello/{name}", [](gyre::http::request& request) {
    return gyre::http::response::text("Hello, " + request.param("name") + "\n");
  });
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;

  auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, [&] { return server.stop_async(); });
  co_await rt.drained();
}

int main(int argc, char** argv) {
  const char* address = argc > 1 ? argv[1] : "[::]:8080";
  return gyre::runtime::main([&](gyre::runtime& rt) { return serve(rt, address); });
}
