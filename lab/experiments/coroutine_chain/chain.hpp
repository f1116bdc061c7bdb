// SPDX-License-Identifier: Apache-2.0
// The chain of the published experiment: link N adds N to what it awaits from link N - 1, each link
// a function of its own. Coroutines of every contender are made from these templates.
//
// Compilers may inline a chain whose definitions they see, frames and all. Each contender is
// therefore built twice: as it is, and as NAME_noinline, where every link is behind a call.
#pragma once

#include <cstdint>

#ifdef GYRE_LAB_NOINLINE
#define GYRE_LAB_LINK [[gnu::noinline]]
#else
#define GYRE_LAB_LINK
#endif

namespace lab::coroutine_chain {

/// The result of the end of a chain: a number that the compiler cannot know, as other code may
/// write it. Sabotage changes it.
inline int chain_end = 1;

/// The result of a chain of links N … 1 and its end.
constexpr std::uint64_t sum_of_chain(std::uint64_t links) { return links * (links + 1) / 2 + 1; }

/// A contender's coroutine type: `Runtime::task<int>`.
template <class Runtime>
using task_of = Runtime::template task<int>;

template <class Runtime, int N>
GYRE_LAB_LINK task_of<Runtime> link() {
  if constexpr (N == 0) {
    co_return chain_end;
  } else {
    co_return N + co_await link<Runtime, N - 1>();
  }
}

}  // namespace lab::coroutine_chain
