// SPDX-License-Identifier: Apache-2.0
// The main() of the contenders of the WebSocket experiments: a server process that serves the paths
// below on one thread, and this process as its client. One program text serves both experiments:
// the name under which it is built decides on the load.
//
//     /echo     sends each binary message back, uncompressed
//     /deflate  the same with permessage-deflate: windows of 15 bits, level 6, no context kept in
//               either direction, each message compressed
//     /topic    sends each message of /publish to all WebSockets here, uncompressed
//     /publish  sends nothing back
//
// Messages have at most 1 MiB. A WebSocket is closed by the client.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/network/exchange.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/program.hpp>

#include <sys/types.h>
#include <unistd.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>

namespace lab::websocket {

inline constexpr std::size_t max_message_bytes = std::size_t{1} << 20;

enum class packing : std::uint8_t { none, deflate };

struct cell_parameters {
  std::uint32_t connections = 100;
  std::uint32_t subscribers = 1000;
  std::uint32_t in_flight = 1;
  std::uint32_t message_bytes = 1024;
  packing compression = packing::none;
  std::uint32_t duration_ms = 500;
};

/// The parameters of the experiment that this program is built for.
void describe_cell(cell_parameters& cell, arguments& options);

/// The client's side of a run.
void run_client(const cell_parameters& cell, const harness_options& harness, report& result);

/// A contender that serves the paths on `listener`, a non-blocking socket, on the calling thread,
/// and never returns.
template <class Contender>
concept adopts_listener = requires(int listener) { Contender::serve(listener); };

/// A contender whose library binds by itself, to this port of 127.0.0.1.
template <class Contender>
concept binds_port = requires(std::uint16_t port) { Contender::serve_at(port); };

/// A contender in a process of its own, which start() makes. The program binds this port.
template <class Contender>
concept other_program = requires(std::uint16_t port) {
  { Contender::start(port) } -> std::same_as<pid_t>;
};

/// A contender: one of the three, with one thread that serves. One that does not run on every
/// machine also has a static probe(), which throws cannot_run.
template <class Contender>
concept websocket_contender =
    adopts_listener<Contender> || binds_port<Contender> || other_program<Contender>;

struct workload {
  using parameters = cell_parameters;

  static void describe(parameters& cell, arguments& options) { describe_cell(cell, options); }

  template <websocket_contender Contender>
  [[noreturn]] static void serve(const char* const* argv) {
    network::server_side side(argv);
    const int listener = side.listen();
    network::set_non_blocking(listener);
    network::disable_delay(listener);  // connections inherit it
    if constexpr (adopts_listener<Contender>) {
      std::thread([listener] { Contender::serve(listener); }).detach();
    } else {
      const std::uint16_t port = network::port_of(listener);
      close(listener);
      if constexpr (other_program<Contender>) {
        const pid_t program = Contender::start(port);
        side.serve([program](network::usage& now) { now = used_by(program); });
      } else {
        std::thread([port] { Contender::serve_at(port); }).detach();
      }
    }
    side.serve([](network::usage&) {});
  }

  template <websocket_contender Contender>
  static void run(const parameters& cell, const harness_options& harness, report& result) {
    run_client(cell, harness, result);
  }
};

/// The main() of a contender of these experiments.
template <websocket_contender Contender>
[[noreturn]] void contender_main(int argc, const char* const* argv, libraries versions = {}) {
  network::workload_main<workload, Contender>(argc, argv, std::move(versions));
}

}  // namespace lab::websocket
