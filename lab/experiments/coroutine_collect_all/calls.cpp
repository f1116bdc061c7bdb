// SPDX-License-Identifier: Apache-2.0
// The floor below all coroutines: chains of plain functions, called one after another.
#include <lab/experiments/coroutine_collect_all/workload.hpp>

int main(int argc, char** argv) {
  namespace experiment = lab::coroutine_collect_all;
  using calls = experiment::calls<lab::coroutine_chain::no_frame>;
  return experiment::contender_main<calls>(argc, argv);
}
