// SPDX-License-Identifier: Apache-2.0
// The main() of the contenders of the HTTP experiments: a server process that serves the site on
// one thread, and this process as its client. One program text serves all four experiments: the
// name under which it is built decides on the load.
#pragma once

#include <lab/harness/affinity.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/http/site.hpp>
#include <lab/harness/network/exchange.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/program.hpp>

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lab::http {

/// Connections that stay, or one for each request.
enum class connection_use { kept, renewed };

struct cell_parameters {
  std::uint32_t connections = 100;
  std::uint32_t in_flight = 1;
  std::uint32_t body_bytes = 1024;
  connection_use use = connection_use::kept;
  std::uint32_t duration_ms = 500;
};

/// The parameters of the experiment that this program is built for.
void describe_cell(cell_parameters& cell, arguments& options);

/// The client's side of a run. `passes_vectors`: whether the server takes part in their count.
void run_client(const cell_parameters& cell, const harness_options& harness, bool passes_vectors,
                report& result);

/// A contender that serves the site on `listener`, a non-blocking socket, on the calling thread,
/// and never returns.
template <class Contender>
concept adopts_listener =
    requires(int listener, const site& site) { Contender::serve(listener, site); };

/// A contender that serves the site on a socket that it binds itself, to a port of 127.0.0.1.
template <class Contender>
concept binds_port =
    requires(std::uint16_t port, const site& site) { Contender::serve_at(port, site); };

/// A contender in a process of its own, which start() makes. It closes `listener`, and the program
/// binds that port.
template <class Contender>
concept other_program = requires(int listener, std::uint16_t port, const site& site) {
  { Contender::start(listener, port, site) } -> std::same_as<pid_t>;
};

/// A contender: one of the three, all with one thread that serves. One that does not run on every
/// machine also has a static probe(), which throws cannot_run. One that answers without reading
/// requests has `static constexpr bool is_floor = true`: vectors say nothing about it.
template <class Contender>
concept http_contender =
    adopts_listener<Contender> || binds_port<Contender> || other_program<Contender>;

struct workload {
  using parameters = cell_parameters;

  static void describe(parameters& cell, arguments& options) { describe_cell(cell, options); }

  template <http_contender Contender>
  [[noreturn]] static void serve(const char* const* argv) {
    network::server_side side(argv);
    const int listener = side.listen();
    network::set_non_blocking(listener);
    static const site files = make_site();
    if constexpr (other_program<Contender>) {
      const pid_t program = Contender::start(listener, network::port_of(listener), files);
      side.serve([program](network::usage& now) { now = used_by(program); });
    } else if constexpr (binds_port<Contender>) {
      const std::uint16_t port = network::port_of(listener);
      close(listener);
      std::thread([port] { Contender::serve_at(port, files); }).detach();
    } else {
      std::thread([listener] { Contender::serve(listener, files); }).detach();
    }
    side.serve([](network::usage&) {});
  }

  template <http_contender Contender>
  static void run(const parameters& cell, const harness_options& harness, report& result) {
    constexpr bool passes_vectors = !requires { Contender::is_floor; };
    run_client(cell, harness, passes_vectors, result);
  }
};

/// The main() of a contender of these experiments.
template <http_contender Contender>
[[noreturn]] void contender_main(int argc, const char* const* argv, libraries versions = {}) {
  network::workload_main<workload, Contender>(argc, argv, std::move(versions));
}

}  // namespace lab::http
