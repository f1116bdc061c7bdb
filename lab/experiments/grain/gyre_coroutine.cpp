// SPDX-License-Identifier: Apache-2.0
// gyre: when_all of gyre::task on a pool that steals.
#include <lab/experiments/fork_join/gyre_runtime.hpp>
#include <lab/experiments/grain/coroutines.hpp>
#include <lab/experiments/grain/workload.hpp>

int main(int argc, char** argv) {
  using namespace lab::grain;
  return contender_main<coroutine_pool<lab::fork_join::gyre_runtime>>(argc, argv);
}
