// SPDX-License-Identifier: Apache-2.0
// A run between two processes: a server, and a client whose sessions are connected to it.
#pragma once

#include <lab/harness/affinity.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/network/bare_epoll.hpp>
#include <lab/harness/network/crew.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/network/socket.hpp>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace lab::network {

/// Who the client is.
enum class client_kind {
  own,    ///< the contender itself, as in the published reports
  common  ///< bare_epoll, the same for all
};

/// Descriptors that a process needs beside its connections, and more than that.
inline constexpr std::size_t spare_descriptors = 100;

/// A server in its process, and this process as its client.
template <class Contender, any_session ClientSession>
class exchange {
 public:
  /// Starts the server and connects to it. `setup` is for the client's sessions and must live until
  /// the process ends. Throws cannot_run when the machine does not allow so many connections.
  template <class Setup>
  exchange(const server_plan& plan, const harness_options& harness, Setup& setup)
      : sides_(split(harness.pin)),
        server_(*new server_process(allowed(plan), sides_.server)),
        clients_(crew<ClientSession>::make(connect_all(server_.port(), plan.connections),
                                           plan.threads, setup)) {
    server_.await_serving();
    pin_thread(sides_.client);
  }

  /// Lets the client's threads begin.
  void start(client_kind client) {
    if (client == client_kind::own) {
      clients_.template start<Contender>(sides_.client);
    } else {
      clients_.template start<common_client>(sides_.client);
    }
  }

  server_process& server() { return server_; }
  const crew<ClientSession>& clients() const { return clients_; }

 private:
  static server_plan allowed(const server_plan& plan) {
    raise_descriptor_limit(plan.connections + spare_descriptors);
    return plan;
  }

  sides sides_;
  server_process& server_;  // until the process ends, as clients would see it go
  crew<ClientSession>& clients_;
};

/// The main() of a contender in Workload, as server or as client. The process ends in here, while
/// its threads are still running.
template <class Workload, class Contender>
[[noreturn]] void workload_main(int argc, const char* const* argv, libraries versions) {
  std::signal(SIGPIPE, SIG_IGN);  // not all contenders write with MSG_NOSIGNAL
  if (server_side::is_asked_for(argc, argv)) Workload::template serve<Contender>(argv);
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
