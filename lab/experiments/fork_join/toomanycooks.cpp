// SPDX-License-Identifier: Apache-2.0
// TooManyCooks: spawn_tuple and spawn_many of tmc::task on its executor of several threads.
#define TMC_IMPL
#include <lab/experiments/fork_join/coroutines.hpp>
#include <lab/experiments/fork_join/toomanycooks_runtime.hpp>
#include <lab/experiments/fork_join/workload.hpp>

int main(int argc, char** argv) {
  using namespace lab::fork_join;
  return contender_main<coroutine_pool<toomanycooks_runtime>>(argc, argv,
                                                              {{"TooManyCooks", "1.7"}});
}
