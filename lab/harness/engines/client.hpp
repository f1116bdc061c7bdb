// SPDX-License-Identifier: Apache-2.0
// The clients that the data experiments measure: how a cell is run, and their main().
#pragma once

#include <lab/harness/affinity.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/engines/caller.hpp>
#include <lab/harness/engines/item_set.hpp>
#include <lab/harness/engines/load.hpp>

#include <functional>
#include <span>

namespace lab::engines {

/// A contender: one thread of a client. serve() returns when no caller asks any more. A contender
/// that does not run on every machine also has a static probe(), which throws cannot_run.
template <class Contender, class Address>
concept client_of = requires(const Address& server, std::span<caller> callers) {
  Contender::serve(server, callers);
};

/// Runs a cell: the engine on its CPUs, and then the client on the others.
///
/// `start_server(cpus)` gives the engine, whose used() tells the resources that it has used, and
/// `address_of(server)` what the contender gets.
template <class Contender, class StartServer, class AddressOf>
void run_client(const load_plan& plan, const harness_options& harness, const item_set& items,
                const unit_name& unit, StartServer start_server, AddressOf address_of,
                report& result) {
  if constexpr (requires { Contender::probe(); }) Contender::probe();
  const network::side_cpus cpus = split_cpus(harness.pin, plan.threads);
  const auto server = start_server(cpus.server);
  pin_thread(cpus.client);
  const auto address = address_of(server);
  static_assert(client_of<Contender, decltype(address)>);
  run_callers(
      plan, harness, items, unit, [&] { return server.used(); },
      [&](std::span<caller> callers) { Contender::serve(address, callers); }, result);
}

/// The main() of a client: contender_main() with the parameters of `options` and the duration,
/// which is added to them.
int client_main(int argc, const char* const* argv, libraries versions, arguments& options,
                load_plan& plan, const std::function<void(const harness_options&, report&)>& run);

}  // namespace lab::engines
