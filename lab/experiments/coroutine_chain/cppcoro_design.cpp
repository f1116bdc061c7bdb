// SPDX-License-Identifier: Apache-2.0
// cppcoro's design: a lazy coroutine by symmetric transfer.
#include <lab/experiments/coroutine_chain/cppcoro_design.hpp>
#include <lab/experiments/coroutine_chain/workload.hpp>

int main(int argc, char** argv) {
  using namespace lab::coroutine_chain;
  return contender_main<coroutines<cppcoro_design>>(argc, argv);
}
