// SPDX-License-Identifier: Apache-2.0
// gyre's loop with boost::lockfree::queue as its inbox.
#include <gyre/exec/inbox/boost_lockfree.hpp>
#include <lab/experiments/post_task/gyre_loop.hpp>
#include <lab/harness/boost_version.hpp>

int main(int argc, char** argv) {
  using namespace lab::post_task;
  return contender_main<gyre_loop<gyre::inbox::boost_lockfree>>(argc, argv, {lab::boost_version()});
}
