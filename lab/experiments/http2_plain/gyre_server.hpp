// SPDX-License-Identifier: Apache-2.0
// gyre::http::server with its defaults, time limits included, whose handlers are functions; the
// body of an upload is read by a coroutine, piece by piece.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/task/task.hpp>
#include <lab/experiments/http_plain/gyre_site.hpp>
#include <lab/harness/gyre_io.hpp>

namespace lab::http2 {

inline gyre::task<gyre::http::response> read_body(gyre::http::request& request) {
  while (const auto chunk = co_await request.next_chunk()) {
  }
  co_return http::say_hello();
}

struct gyre_server {
  static void probe() { probe_contender_io(); }

  static void serve(int listener, const http::site& site) {
    gyre::loop loop({.io = contender_io});
    gyre::http::server server(loop, http::gyre_options());
    server.get("/plain", [](gyre::http::request&) { return http::say_hello(); });
    server.get("/file", [&site](gyre::http::request&) { return http::give_file(site); });
    server.post("/upload", read_body, {.streamed_body = true});
    server.tcp().listen(gyre::net::socket(gyre::unique_fd(listener)));
    server.start();
    loop.run();
  }
};

}  // namespace lab::http2
