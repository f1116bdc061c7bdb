// SPDX-License-Identifier: Apache-2.0
// gyre: when_all of gyre::task on a pool that steals.
#include <lab/experiments/fork_join/coroutines.hpp>
#include <lab/experiments/fork_join/gyre_runtime.hpp>
#include <lab/experiments/fork_join/workload.hpp>

int main(int argc, char** argv) {
  using namespace lab::fork_join;
  return contender_main<coroutine_pool<gyre_runtime>>(argc, argv);
}
