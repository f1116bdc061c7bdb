// SPDX-License-Identifier: Apache-2.0
// gyre's loop with the inbox that evpp has by default: a vector under a mutex.
#include <gyre/exec/inbox/mutex.hpp>
#include <lab/experiments/post_task/gyre_loop.hpp>

int main(int argc, char** argv) {
  using namespace lab::post_task;
  return contender_main<gyre_loop<gyre::inbox::mutex>>(argc, argv);
}
