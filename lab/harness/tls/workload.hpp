// SPDX-License-Identifier: Apache-2.0
// The main() of the contenders of the TLS experiments: a server process that sends back what it
// receives, on one thread, and this process as its client. One program text serves both
// experiments: the name under which it is built decides on the load.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/network/exchange.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/tls/credentials.hpp>

#include <cstdint>
#include <thread>
#include <utility>

namespace lab::tls {

enum class handshake_kind : std::uint8_t { full, resumed };

struct cell_parameters {
  std::uint32_t connections = 16;
  std::uint32_t idle_connections = 500;
  std::uint32_t message_bytes = 16384;
  handshake_kind handshake = handshake_kind::full;
  std::uint32_t duration_ms = 500;
};

/// The parameters of the experiment that this program is built for.
void describe_cell(cell_parameters& cell, arguments& options);

/// The client's side of a run. `encrypted`: whether the server speaks TLS.
void run_client(const cell_parameters& cell, const harness_options& harness, bool encrypted,
                report& result);

/// A contender: accepts connections on `listener`, a non-blocking socket, for ever, and echoes the
/// bytes of each over TLS. It answers close_notify by its own, and closes. It runs on one thread
/// and never returns. One that does not run on every machine also has a static probe(), which
/// throws cannot_run. A floor without TLS has `static constexpr bool is_plain = true`.
template <class Contender>
concept tls_contender =
    requires(int listener, const credentials& own) { Contender::serve(listener, own); };

struct workload {
  using parameters = cell_parameters;

  static void describe(parameters& cell, arguments& options) { describe_cell(cell, options); }

  template <tls_contender Contender>
  [[noreturn]] static void serve(const char* const* argv) {
    network::server_side side(argv);
    const int listener = side.listen();
    network::set_non_blocking(listener);
    network::disable_delay(listener);  // connections inherit it
    static const credentials own = inherited_credentials();
    std::thread([listener] { Contender::serve(listener, own); }).detach();
    side.serve([](network::usage&) {});
  }

  template <tls_contender Contender>
  static void run(const parameters& cell, const harness_options& harness, report& result) {
    constexpr bool encrypted = !requires { Contender::is_plain; };
    run_client(cell, harness, encrypted, result);
  }
};

/// The main() of a contender of these experiments.
template <tls_contender Contender>
[[noreturn]] void contender_main(int argc, const char* const* argv, libraries versions = {}) {
  versions.emplace_back("openssl", OPENSSL_VERSION_STR);
  network::workload_main<workload, Contender>(argc, argv, std::move(versions));
}

}  // namespace lab::tls
