// SPDX-License-Identifier: Apache-2.0
// gyre's thread pool with one queue, a mutex and a condition variable.
#include <lab/experiments/pool/gyre_pool.hpp>

int main(int argc, char** argv) {
  using namespace lab::pool;
  return contender_main<gyre_pool<gyre::scheduler::blocking>>(argc, argv);
}
