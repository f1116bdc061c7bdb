// SPDX-License-Identifier: Apache-2.0
// The floor of coroutines whose frames come from malloc: chains of plain functions with a block
// each, called one after another.
#include <lab/experiments/coroutine_collect_all/workload.hpp>

int main(int argc, char** argv) {
  namespace experiment = lab::coroutine_collect_all;
  using frames = experiment::calls<lab::coroutine_chain::malloc_frame>;
  return experiment::contender_main<frames>(argc, argv);
}
