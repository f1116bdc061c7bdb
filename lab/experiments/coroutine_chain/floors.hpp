// SPDX-License-Identifier: Apache-2.0
// The chain without coroutines: plain functions that call each other, and the same with a block
// from malloc for each, as large as a coroutine's frame.
#pragma once

#include <lab/experiments/coroutine_chain/chain.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace lab::coroutine_chain {

/// Gets a block and frees it; the compiler may not leave that out.
class malloc_frame {
 public:
  malloc_frame() : block_(std::malloc(bytes)) {
    if (block_ == nullptr) throw std::bad_alloc();
    benchmark::DoNotOptimize(block_);
  }
  malloc_frame(const malloc_frame&) = delete;
  malloc_frame& operator=(const malloc_frame&) = delete;
  ~malloc_frame() { std::free(block_); }

 private:
  static constexpr std::size_t bytes = 88;  // as a link of gyre's from g++

  void* block_;
};

struct no_frame {};

/// The links N … 1 and the end, each with a Frame.
template <class Frame, int N>
GYRE_LAB_LINK int call_link() {
  [[maybe_unused]] const Frame frame;
  if constexpr (N == 0) {
    return chain_end;
  } else {
    return N + call_link<Frame, N - 1>();
  }
}

}  // namespace lab::coroutine_chain
