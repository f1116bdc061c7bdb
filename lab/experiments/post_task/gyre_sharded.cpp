// SPDX-License-Identifier: Apache-2.0
// gyre's loop with the cheapest inbox: a chunked ring per producer.
#include <gyre/exec/inbox/sharded.hpp>
#include <lab/experiments/post_task/gyre_loop.hpp>

int main(int argc, char** argv) {
  using namespace lab::post_task;
  return contender_main<gyre_loop<gyre::inbox::sharded>>(argc, argv);
}
