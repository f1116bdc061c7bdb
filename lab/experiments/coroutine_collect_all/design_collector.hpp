// SPDX-License-Identifier: Apache-2.0
// The contenders cppcoro_design, async_simple_design and folly_design: one of these designs awaits
// all tasks at once.
#pragma once

#include <lab/experiments/coroutine_collect_all/workload.hpp>

#include <cstdint>
#include <vector>

namespace lab::coroutine_collect_all {

template <class Design>
class design_collector {
 public:
  std::uint64_t collect(std::uint32_t tasks) { return design_.wait(sum_of(tasks)); }

 private:
  static Design::template task<std::uint64_t> sum_of(std::uint32_t tasks) {
    auto all = Design::when_all(make_tasks<Design>(tasks));
    const std::vector<int> values = co_await all;
    std::uint64_t sum = 0;
    for (const int each : values) sum += static_cast<std::uint64_t>(each);
    co_return sum;
  }

  Design design_;
};

}  // namespace lab::coroutine_collect_all
