// SPDX-License-Identifier: Apache-2.0
// async_simple's design: a lazy coroutine with an executor in its promise.
#include <lab/experiments/coroutine_chain/async_simple_design.hpp>
#include <lab/experiments/coroutine_chain/workload.hpp>

int main(int argc, char** argv) {
  using namespace lab::coroutine_chain;
  return contender_main<coroutines<async_simple_design>>(argc, argv);
}
