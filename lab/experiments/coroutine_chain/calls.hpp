// SPDX-License-Identifier: Apache-2.0
// The contenders without coroutines.
#pragma once

#include <lab/experiments/coroutine_chain/floors.hpp>
#include <lab/experiments/coroutine_chain/workload.hpp>

namespace lab::coroutine_chain {

template <class Frame>
struct calls {
  int nested() { return call_link<Frame, links>(); }
  int sequence(int awaits) {
    int sum = 0;
    for (int i = 0; i < awaits; ++i) {
      int value = call_link<Frame, 0>();
      benchmark::DoNotOptimize(value);  // keeps the compiler from calling it once
      sum += value;
    }
    return sum;
  }
};

}  // namespace lab::coroutine_chain
