// SPDX-License-Identifier: Apache-2.0
// The floor below all coroutines: plain functions that call each other.
#include <lab/experiments/coroutine_chain/calls.hpp>

int main(int argc, char** argv) {
  using chain = lab::coroutine_chain::calls<lab::coroutine_chain::no_frame>;
  return lab::coroutine_chain::contender_main<chain>(argc, argv);
}
