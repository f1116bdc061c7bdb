// SPDX-License-Identifier: Apache-2.0
// gyre's loop with its default inbox: linked segments, first in first out over all producers.
#include <gyre/exec/inbox/fifo.hpp>
#include <lab/experiments/post_task/gyre_loop.hpp>

int main(int argc, char** argv) {
  using namespace lab::post_task;
  return contender_main<gyre_loop<gyre::inbox::fifo>>(argc, argv);
}
