// SPDX-License-Identifier: Apache-2.0
// folly's design: a lazy coroutine that enters through an executor.
#include <lab/experiments/coroutine_chain/folly_design.hpp>
#include <lab/experiments/coroutine_chain/workload.hpp>

int main(int argc, char** argv) {
  using namespace lab::coroutine_chain;
  return contender_main<coroutines<folly_design>>(argc, argv);
}
