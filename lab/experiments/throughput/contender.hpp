// SPDX-License-Identifier: Apache-2.0
// The main() of the contenders of throughput, throughput_threads, ping_pong, latency and fairness.
// Contenders move bytes of sessions, and the experiment supplies their protocol, so one source file
// of a contender serves all five.
#pragma once

#include <lab/experiments/fairness/workload.hpp>
#include <lab/experiments/latency/workload.hpp>
#include <lab/experiments/ping_pong/workload.hpp>
#include <lab/experiments/throughput/workload.hpp>
#include <lab/harness/network/exchange.hpp>
#include <lab/harness/network/session.hpp>

#include <utility>

namespace lab::network {

/// Runs the workload for which the program is built.
template <class Contender>
[[noreturn]] void contender_main(int argc, const char* const* argv, libraries versions = {}) {
  static_assert(contender_of<Contender, echo_server>);
  workload_main<GYRE_LAB_WORKLOAD::workload, Contender>(argc, argv, std::move(versions));
}

}  // namespace lab::network
