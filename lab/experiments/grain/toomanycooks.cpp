// SPDX-License-Identifier: Apache-2.0
// TooManyCooks: spawn_tuple and spawn_many of tmc::task on its executor of several threads.
#define TMC_IMPL
#include <lab/experiments/fork_join/toomanycooks_runtime.hpp>
#include <lab/experiments/grain/coroutines.hpp>
#include <lab/experiments/grain/workload.hpp>

int main(int argc, char** argv) {
  using namespace lab::grain;
  return contender_main<coroutine_pool<lab::fork_join::toomanycooks_runtime>>(
      argc, argv, {{"TooManyCooks", "1.7"}});
}
