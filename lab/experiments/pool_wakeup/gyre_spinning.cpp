// SPDX-License-Identifier: Apache-2.0
// gyre's thread pool with one queue under a spin lock; workers yield while it is empty.
#include <lab/experiments/pool_wakeup/gyre_pool.hpp>

int main(int argc, char** argv) {
  using namespace lab::pool_wakeup;
  return contender_main<gyre_pool<gyre::scheduler::spinning>>(argc, argv);
}
