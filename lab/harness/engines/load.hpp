// SPDX-License-Identifier: Apache-2.0
// The load of the data experiments: callers on the threads of a client library, the time that they
// are measured, and the report. Closed: a caller asks again when it has been answered.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/engines/caller.hpp>
#include <lab/harness/engines/item_set.hpp>
#include <lab/harness/network/server_process.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lab::engines {

/// The number of different items.
inline constexpr std::uint32_t item_count = 1000;

/// A cell of an experiment.
struct load_plan {
  std::uint32_t callers = 1;  ///< in all threads together
  std::uint32_t threads = 1;  ///< of the client, with equally many callers each
  std::uint32_t duration_ms = 500;
  std::chrono::milliseconds patience = std::chrono::seconds{10};  ///< without a reply
};

/// The metrics' names of an experiment.
struct unit_name {
  std::string one;   ///< as in "client_cpu_ns_per_command"
  std::string many;  ///< as in "commands_per_second"
};

/// The CPUs of the engine and of the client. A client of more threads than it has CPUs of its own
/// shares all of them with the engine.
network::side_cpus split_cpus(const std::vector<unsigned>& cpus, std::uint32_t threads);

/// Runs a client: each thread calls `serve` with its callers, which returns when all of them have
/// taken their last reply. Measures for the duration, from when every caller has been answered and
/// a quarter of the duration has passed. Reports rates, costs and checks.
///
/// `engine`: the resources that the engine has used so far.
///
/// Errors: throws the exceptions of `serve`. Ends the process if callers are not answered for the
/// time of `patience`.
void run_callers(const load_plan& plan, const harness_options& harness, const item_set& items,
                 const unit_name& unit, const std::function<network::usage()>& engine,
                 const std::function<void(std::span<caller>)>& serve, report& result);

}  // namespace lab::engines
