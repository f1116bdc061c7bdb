// SPDX-License-Identifier: Apache-2.0
// gyre's loop with boost::lockfree::queue as its inbox.
#include <gyre/exec/inbox/boost_lockfree.hpp>
#include <lab/experiments/hop/gyre_loop.hpp>
#include <lab/harness/boost_version.hpp>

int main(int argc, char** argv) {
  return lab::hop::gyre_main<gyre::inbox::boost_lockfree>(argc, argv, {lab::boost_version()});
}
