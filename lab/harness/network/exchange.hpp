// SPDX-License-Identifier: Apache-2.0
// A run between two processes: a server, and a client whose sessions connect to the server.
#pragma once

#include <lab/harness/affinity.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/network/bare_epoll.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/network/session_threads.hpp>
#include <lab/harness/network/socket.hpp>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace lab::network {

/// The program that plays the client.
enum class client_kind {
  own,    ///< the contender itself, as in the published reports
  common  ///< bare_epoll, for all contenders
};

/// An upper bound of the descriptors that a process needs beside its connections.
inline constexpr std::size_t spare_descriptors = 100;

/// A server in a process of its own, and this process as its client.
template <class Contender, any_session ClientSession>
class exchange {
 public:
  /// Starts the server and connects to it. `setup` is for the client's sessions.
  /// Lifetime: `setup` must live until the process ends.
  /// Errors: throws cannot_run when the machine does not allow that many connections.
  template <class Setup>
  exchange(const server_plan& plan, const harness_options& harness, Setup& setup)
      : cpus_(split_cpus(harness.pin)),
        server_(*new server_process(allowed(plan), cpus_.server)),
        clients_(session_threads<ClientSession>::make(connect_all(server_.port(), plan.connections),
                                                      plan.threads, setup)) {
    server_.await_serving();
    pin_thread(cpus_.client);
  }

  /// Starts the client's threads.
  void start(client_kind client) {
    if (client == client_kind::own) {
      clients_.template start<Contender>(cpus_.client);
    } else {
      clients_.template start<common_client>(cpus_.client);
    }
  }

  server_process& server() { return server_; }
  const session_threads<ClientSession>& clients() const { return clients_; }

 private:
  static server_plan allowed(const server_plan& plan) {
    raise_descriptor_limit(plan.connections + spare_descriptors);
    return plan;
  }

  side_cpus cpus_;
  server_process& server_;  // lives until the process ends, as clients would notice its end
  session_threads<ClientSession>& clients_;
};

/// The main() of a contender in Workload, as server or as client. Ends the process while its
/// threads are still running.
template <class Workload, class Contender>
[[noreturn]] void workload_main(int argc, const char* const* argv, libraries versions) {
  std::signal(SIGPIPE, SIG_IGN);  // not all contenders write with MSG_NOSIGNAL
  if (server_side::is_requested(argc, argv)) Workload::template serve<Contender>(argv);
  typename Workload::parameters cell;
  arguments options;
  Workload::describe(cell, options);
  const auto run = [&cell](const harness_options& harness, report& result) {
    if constexpr (requires { Contender::probe(); }) Contender::probe();
    Workload::template run<Contender>(cell, harness, result);
  };
  std::_Exit(lab::contender_main(argc, argv, this_contender(std::move(versions)), options, run));
}

}  // namespace lab::network
