// SPDX-License-Identifier: Apache-2.0
// async_simple's design, without an executor, as in the published experiment.
#include <lab/experiments/coroutine_chain/async_simple_design.hpp>
#include <lab/experiments/coroutine_collect_all/design_collector.hpp>

int main(int argc, char** argv) {
  using namespace lab::coroutine_collect_all;
  return contender_main<design_collector<lab::coroutine_chain::async_simple_design>>(argc, argv);
}
