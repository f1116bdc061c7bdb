// SPDX-License-Identifier: Apache-2.0
// The tasks as coroutines that await each other through a `Runtime`:
//   Runtime::task<T>        a coroutine
//   Runtime::both(a, b)     awaited, runs both and gives their results
//   Runtime::all(tasks)     awaited, runs all of a std::vector, which it may use up, and gives a
//                           range of their results
#pragma once

#include <lab/experiments/grain/workload.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lab::grain {

template <class Runtime>
using task_of = typename Runtime::template task<std::uint64_t>;

template <class Runtime>
task_of<Runtime> one(const tasks& all, std::size_t index) {
  co_return all.run(index);
}

template <class Runtime>
task_of<Runtime> all_at_once(const tasks& all) {
  std::vector<task_of<Runtime>> forked;
  forked.reserve(all.count);
  for (std::size_t i = 0; i < all.count; ++i) forked.push_back(one<Runtime>(all, i));
  const auto results = co_await Runtime::all(forked);
  std::uint64_t sum = 0;
  for (const std::uint64_t each : results) sum += each;
  co_return sum;
}

template <class Runtime>
task_of<Runtime> pairs(const tasks& all) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 1 < all.count; i += 2) {
    const auto [a, b] = co_await Runtime::both(one<Runtime>(all, i), one<Runtime>(all, i + 1));
    sum += a + b;
  }
  if (all.count % 2 != 0) sum += all.run(all.count - 1);
  co_return sum;
}

}  // namespace lab::grain
