// SPDX-License-Identifier: Apache-2.0
// The floor of coroutines whose frames come from malloc: plain functions with a block each.
#include <lab/experiments/coroutine_chain/calls.hpp>

int main(int argc, char** argv) {
  using chain = lab::coroutine_chain::calls<lab::coroutine_chain::malloc_frame>;
  return lab::coroutine_chain::contender_main<chain>(argc, argv);
}
