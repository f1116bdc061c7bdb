// SPDX-License-Identifier: Apache-2.0
// cppcoro's design, without an executor, as in the published experiment.
#include <lab/experiments/coroutine_chain/cppcoro_design.hpp>
#include <lab/experiments/coroutine_collect_all/design_collector.hpp>

int main(int argc, char** argv) {
  using namespace lab::coroutine_collect_all;
  return contender_main<design_collector<lab::coroutine_chain::cppcoro_design>>(argc, argv);
}
