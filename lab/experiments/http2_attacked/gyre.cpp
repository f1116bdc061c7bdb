// SPDX-License-Identifier: Apache-2.0
// gyre::http::server with its defaults, but for the limit of connections of one address.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <lab/experiments/http2_attacked/workload.hpp>
#include <lab/experiments/http_plain/gyre_site.hpp>
#include <lab/harness/gyre_io.hpp>

#include <chrono>
#include <string>

namespace {

using gyre::http::body_writer;
using gyre::http::request;
using gyre::http::response;
using gyre::http::status;

gyre::task<response> dawdle() {
  co_await gyre::sleep_for(std::chrono::hours{1});
  co_return status::ok;
}

gyre::task<> write_for_ever(body_writer& out) {
  const std::string piece(16'384, 'x');
  for (;;) co_await out.write(piece);
}

struct gyre_server {
  static void probe() { lab::probe_contender_io(); }

  static void serve(int listener) {
    gyre::loop loop({.io = lab::contender_io});
    gyre::http::server server(loop, lab::http::gyre_options());
    server.get("/plain", [](request&) { return lab::http::say_hello(); });
    server.get("/medium", [](request&) { return response::text(std::string(32'000, 'x')); });
    server.get("/large", [](request&) { return response::text(std::string(300'000, 'x')); });
    server.get("/stream", [](request&) { return response::stream("text/plain", write_for_ever); });
    server.get("/slow", [](request&) { return dawdle(); });
    server.post("/whole", [](request&) { return status::ok; });
    server.post("/pieces", [](request&) { return dawdle(); }, {.streamed_body = true});
    server.tcp().listen(gyre::net::socket(gyre::unique_fd(listener)));
    server.start();
    loop.run();
  }
};

}  // namespace

int main(int argc, char** argv) { lab::http2_attacked::contender_main<gyre_server>(argc, argv); }
