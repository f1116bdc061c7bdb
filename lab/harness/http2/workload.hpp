// SPDX-License-Identifier: Apache-2.0
// The main() of the contenders of the HTTP/2 experiments: a server process that serves the paths
// below in clear text, to clients with prior knowledge, on one thread; and this process as its
// client. One program text serves both experiments: the name under which it is built decides on
// the load.
//
//     GET  /plain   `http::hello`
//     GET  /file    the bytes of the file of make_documents()
//     POST /upload  reads the body to its end, then answers as /plain
//
// Each response has Date; its content type does not matter.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/http/site.hpp>
#include <lab/harness/http2/documents.hpp>
#include <lab/harness/network/exchange.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/program.hpp>

#include <sys/types.h>
#include <unistd.h>

#include <concepts>
#include <cstdint>
#include <thread>
#include <utility>

namespace lab::http2 {

enum class direction : std::uint8_t { down, up };

struct cell_parameters {
  std::uint32_t connections = 100;
  std::uint32_t in_flight = 16;
  direction body = direction::down;
  std::uint32_t duration_ms = 500;
};

/// The parameters of the experiment that this program is built for.
void describe_cell(cell_parameters& cell, arguments& options);

/// The client's side of a run. `holds_streams`: whether the server waits for the body of a request,
/// so that the memory of streams can be measured.
void run_client(const cell_parameters& cell, const harness_options& harness, bool holds_streams,
                report& result);

/// The client's side of a run for a contender that is asked by HTTP/1.1: it has a connection for
/// each stream that others have, with one request in flight, as clients of HTTP/1.1 do not
/// pipeline.
void run_http1_client(const cell_parameters& cell, const harness_options& harness, report& result);

/// A contender that serves the paths on `listener`, a non-blocking socket, on the calling thread,
/// and never returns.
template <class Contender>
concept adopts_listener =
    requires(int listener, const http::site& site) { Contender::serve(listener, site); };

/// A contender in a process of its own, which start() makes. The program binds this port of
/// 127.0.0.1.
template <class Contender>
concept other_program = requires(std::uint16_t port, const http::site& site) {
  { Contender::start(port, site) } -> std::same_as<pid_t>;
};

/// A contender: one of the two, with one thread that serves. One that does not run on every machine
/// also has a static probe(), which throws cannot_run. One that answers an upload before it has
/// read it has `static constexpr bool answers_early = true`; one that is asked by HTTP/1.1 has
/// `speaks_http1`.
template <class Contender>
concept http2_contender = adopts_listener<Contender> || other_program<Contender>;

struct workload {
  using parameters = cell_parameters;

  static void describe(parameters& cell, arguments& options) { describe_cell(cell, options); }

  template <http2_contender Contender>
  [[noreturn]] static void serve(const char* const* argv) {
    network::server_side side(argv);
    const int listener = side.listen();
    static const http::site documents = make_documents();
    if constexpr (other_program<Contender>) {
      const std::uint16_t port = network::port_of(listener);
      close(listener);
      const pid_t program = Contender::start(port, documents);
      side.serve([program](network::usage& now) { now = used_by(program); });
    } else {
      network::set_non_blocking(listener);
      network::disable_delay(listener);  // connections inherit it
      std::thread([listener] { Contender::serve(listener, documents); }).detach();
      side.serve([](network::usage&) {});
    }
  }

  template <http2_contender Contender>
  static void run(const parameters& cell, const harness_options& harness, report& result) {
    if constexpr (requires { Contender::speaks_http1; }) {
      run_http1_client(cell, harness, result);
    } else {
      constexpr bool holds_streams = !requires { Contender::answers_early; };
      run_client(cell, harness, holds_streams, result);
    }
  }
};

/// The main() of a contender of these experiments.
template <http2_contender Contender>
[[noreturn]] void contender_main(int argc, const char* const* argv, libraries versions = {}) {
  network::workload_main<workload, Contender>(argc, argv, std::move(versions));
}

}  // namespace lab::http2
