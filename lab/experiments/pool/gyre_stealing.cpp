// SPDX-License-Identifier: Apache-2.0
// gyre's thread pool with its default scheduler: a queue for each submitting thread and each
// worker.
#include <lab/experiments/pool/gyre_pool.hpp>

int main(int argc, char** argv) {
  using namespace lab::pool;
  return contender_main<gyre_pool<gyre::scheduler::stealing>>(argc, argv);
}
