// SPDX-License-Identifier: Apache-2.0
// gyre::http::server whose handlers are coroutines.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/task/task.hpp>
#include <lab/experiments/http_plain/gyre_site.hpp>
#include <lab/harness/gyre_io.hpp>
#include <lab/harness/http/workload.hpp>

namespace {

using gyre::http::request;
using gyre::http::response;

struct gyre_server {
  static void probe() { lab::probe_contender_io(); }

  static void serve(int listener, const lab::http::site& site) {
    gyre::loop loop({.io = lab::contender_io});
    gyre::http::server server(loop, lab::http::gyre_options());
    const auto hello = [](request&) -> gyre::task<response> { co_return lab::http::say_hello(); };
    server.get("/plain", hello);
    server.get("/{rest...}", hello);
    server.get("/json", [](request&) -> gyre::task<response> {
      co_return response::json(lab::http::make_json());
    });
    server.get("/file",
               [&site](request&) -> gyre::task<response> { co_return lab::http::give_file(site); });
    server.post("/{rest...}",
                [](request& asked) -> gyre::task<response> { co_return lab::http::echo(asked); });
    server.tcp().listen(gyre::net::socket(gyre::unique_fd(listener)));
    server.start();
    loop.run();
  }
};

}  // namespace

int main(int argc, char** argv) { lab::http::contender_main<gyre_server>(argc, argv); }
