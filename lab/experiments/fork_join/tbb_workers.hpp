// SPDX-License-Identifier: Apache-2.0
// oneTBB's threads for functions that fork; the calling thread is one of them.
#pragma once

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <cstdint>

namespace lab::fork_join {

class tbb_workers {
 public:
  explicit tbb_workers(std::uint32_t workers)
      : threads_(tbb::global_control::max_allowed_parallelism, workers),
        arena_(static_cast<int>(workers)) {}

  template <class F>
  auto run(const F& f) {
    return arena_.execute(f);
  }

 private:
  tbb::global_control threads_;
  tbb::task_arena arena_;
};

}  // namespace lab::fork_join
