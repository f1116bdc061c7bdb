// SPDX-License-Identifier: Apache-2.0
// gyre's loop with moodycamel::ConcurrentQueue as its inbox.
#include <gyre/exec/inbox/moodycamel.hpp>
#include <lab/experiments/post_task/gyre_loop.hpp>

int main(int argc, char** argv) {
  using namespace lab::post_task;
  return contender_main<gyre_loop<gyre::inbox::moodycamel>>(argc, argv);
}
