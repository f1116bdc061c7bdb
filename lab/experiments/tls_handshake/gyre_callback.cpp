// SPDX-License-Identifier: Apache-2.0
// gyre's callbacks: a tcp_server whose transport is TLS.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/tls/tls_context.hpp>
#include <gyre/tls/transport.hpp>
#include <lab/harness/gyre_io.hpp>
#include <lab/harness/tls/workload.hpp>

namespace {

struct gyre_server {
  static void probe() { lab::probe_contender_io(); }

  static void serve(int listener, const lab::tls::credentials& own) {
    gyre::loop loop({.io = lab::contender_io});
    gyre::net::tcp_server_options options;
    // The clients of the lab have few addresses.
    options.connections_per_address = gyre::net::tcp_server_options::unlimited;
    options.transport = gyre::tls::server_transport(gyre::tls::tls_context::server(
        {.certificates = {{.chain = gyre::tls::pem::text(own.certificate),
                           .key = gyre::tls::pem::text(own.key)}}}));
    gyre::net::tcp_server server(loop, options);
    server.on_message([](gyre::net::tcp_connection& peer, gyre::io::input& input) {
      peer.send(input.bytes());
      input.consume_all();
    });
    server.listen(gyre::net::socket(gyre::unique_fd(listener)));
    server.start();
    loop.run();
  }
};

}  // namespace

int main(int argc, char** argv) { lab::tls::contender_main<gyre_server>(argc, argv); }
