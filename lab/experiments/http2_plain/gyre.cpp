// SPDX-License-Identifier: Apache-2.0
// gyre::http::server with its defaults, time limits included, whose handlers are functions; the
// body of an upload is read by a coroutine, piece by piece.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/task/task.hpp>
#include <lab/experiments/http_plain/gyre_site.hpp>
#include <lab/harness/gyre_io.hpp>
#include <lab/harness/http2/workload.hpp>

namespace {

using gyre::http::request;
using gyre::http::response;

gyre::task<response> read_body(request& request) {
  while (const auto chunk = co_await request.next_chunk()) {
  }
  co_return lab::http::say_hello();
}

struct gyre_server {
  static void probe() { lab::probe_contender_io(); }

  static void serve(int listener, const lab::http::site& site) {
    gyre::loop loop({.io = lab::contender_io});
    gyre::http::server server(loop, lab::http::gyre_options());
    server.get("/plain", [](request&) { return lab::http::say_hello(); });
    server.get("/file", [&site](request&) { return lab::http::give_file(site); });
    server.post("/upload", read_body, {.streamed_body = true});
    server.tcp().listen(gyre::net::socket(gyre::unique_fd(listener)));
    server.start();
    loop.run();
  }
};

}  // namespace

int main(int argc, char** argv) { lab::http2::contender_main<gyre_server>(argc, argv); }
