// SPDX-License-Identifier: Apache-2.0
// The tasks as coroutines that await each other through a `Runtime`: see fork_join/coroutines.hpp.
#pragma once

#include <lab/experiments/fork_join/coroutines.hpp>
#include <lab/experiments/grain/workload.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lab::grain {

using fork_join::task_of;
using fork_join::total;

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
  co_return total(results);
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

/// The contender of a `Runtime`.
template <class Runtime>
class coroutine_pool {
 public:
  explicit coroutine_pool(std::uint32_t workers) : pool_(workers) {}

  std::uint64_t all_at_once(const tasks& all) {
    return pool_.run(grain::all_at_once<Runtime>(all));
  }
  std::uint64_t pairs(const tasks& all) { return pool_.run(grain::pairs<Runtime>(all)); }

 private:
  typename Runtime::pool pool_;
};

}  // namespace lab::grain
