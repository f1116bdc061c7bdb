// SPDX-License-Identifier: Apache-2.0
// The server of foreign_programs_test.py, misbehaving_peer_test.py and crowd_test.py.
//
//     gyre_http_foreign_server [--time-limit MS] FOLDER [CHAIN KEY [CLIENT_AUTHORITY]]
//
// Prints "listening on ADDRESS". Serves FOLDER below /files/; with a certificate over TLS, and with
// an authority for clients only to those that have a certificate of its. /failures tells what has
// failed since it was last asked, and /fetch what a client gets from the URL that it is sent.
// /endless is a body without an end. A peer has MS milliseconds for a head, for a body, and to read
// more of an answer; by default it has what the server's options give it.
#include <gyre/http/client.hpp>
#include <gyre/http/file_server.hpp>
#include <gyre/http/server.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/tls/tls_context.hpp>
#include <gyre/tls/transport.hpp>

#include <chrono>
#include <cstddef>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using gyre::http::request;
using gyre::http::response;
using gyre::tls::pem;

// The peak of resident memory, in KiB.
std::string peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::string kibibytes;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes;
  }
  return "0";
}

// The failures so far, a line for each. Belongs to the loop's thread.
std::string& failures() {
  static std::string lines;
  return lines;
}

gyre::task<response> count(request& request) {
  std::size_t size = 0;
  try {
    while (auto piece = co_await request.next_chunk()) size += piece->size();
  } catch (const std::system_error& error) {
    failures().append("body: ").append(error.what()).append("\n");
    throw;
  }
  co_return response::text(std::to_string(size));
}

constexpr std::chrono::seconds patience{100};

gyre::task<response> fetch(request& request) {
  gyre::http::client_options options{
      .tls = gyre::tls::tls_context::client({.verify = false, .handshake_timeout = patience})};
  options.timeouts.handshake = patience;
  gyre::http::client client(request.loop(), std::move(options));
  std::string outcome;
  try {
    const auto answer = co_await client.get(request.body());
    outcome = "got " + std::string(answer.body());
  } catch (const std::system_error& error) {
    outcome = std::string("failed: ") + error.what();
  }
  co_return response::text(outcome);
}

gyre::task<> write_endlessly(gyre::http::body_writer& writer) {
  static const std::string piece(std::size_t{64} << 10, 'x');
  try {
    for (;;) co_await writer.write(piece);
  } catch (const std::system_error&) {
    // The connection has ended; nobody needs a line on stderr.
  }
}

gyre::task<> serve(gyre::runtime& rt, std::string folder, gyre::tls::tls_context tls,
                   gyre::http::server_options options) {
  if (tls) {
    options.tcp.transport = gyre::tls::server_transport(
        tls, [](const gyre::net::endpoint&, std::error_code, std::string_view text) {
          failures().append("handshake: ").append(text).append("\n");
        });
  }
  gyre::http::server server(rt.loops(), std::move(options));
  server.listen(gyre::net::endpoint("127.0.0.1:0"));
  server.get("/hello", [](request&) { return response::text("hello"); });
  server.any("/any", [](request&) { return response::text("hello"); });  // for h2spec
  server.post("/echo",
              [](request& request) { return response::text(std::string(request.body())); });
  server.put("/sink", count, {.streamed_body = true});
  server.post("/fetch", fetch);
  server.get("/failures", [](request&) { return response::text(std::exchange(failures(), "")); });
  server.get("/endless", [](request&) {
    return response::stream("application/octet-stream", write_endlessly);
  });
  server.get("/peak", [](request&) { return response::text(peak_memory()); });
  server.post("/reload", [tls](request&) {
    tls.reload();
    return response::text("done");
  });
  server.get("/files/{path...}", gyre::http::file_server(folder));
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;

  auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, [&] { return server.stop_async(); });
  co_await rt.drained();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> given(argv + 1, argv + argc);
  gyre::http::server_options options;
  std::chrono::nanoseconds handshake_timeout = patience;
  if (given.size() > 1 && given[0] == "--time-limit") {
    const std::chrono::milliseconds limit(std::stoi(given[1]));
    handshake_timeout = limit;
    options.timeouts.head = options.timeouts.body = limit;
    options.tcp.connections.write_timeout = limit;
    given.erase(given.begin(), given.begin() + 2);
  }
  if (given.size() != 1 && given.size() != 3 && given.size() != 4) {
    std::cerr << "usage: gyre_http_foreign_server [--time-limit MS] FOLDER"
                 " [CHAIN KEY [CLIENT_AUTHORITY]]\n";
    return 2;
  }
  gyre::tls::tls_context tls;
  if (given.size() > 1) {
    gyre::tls::server_options tls_options{
        .certificates = {{.chain = pem::file(given[1]), .key = pem::file(given[2])}},
        .handshake_timeout = handshake_timeout};
    if (given.size() > 3) {
      tls_options.clients = gyre::tls::client_certificates::required;
      tls_options.client_authorities = pem::file(given[3]);
    }
    tls = gyre::tls::tls_context::server(std::move(tls_options));
  }
  return gyre::runtime::main({.loops = 1}, [&](gyre::runtime& rt) {
    return serve(rt, given[0], tls, std::move(options));
  });
}
