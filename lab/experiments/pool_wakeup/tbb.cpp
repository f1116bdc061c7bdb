// SPDX-License-Identifier: Apache-2.0
// oneTBB: task_arena::enqueue; see the contender of that name in lab/experiments/pool.
#include <lab/experiments/pool_wakeup/workload.hpp>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/version.h>

#include <cstddef>
#include <cstdint>

namespace {

class tbb_pool {
 public:
  explicit tbb_pool(std::uint32_t workers)
      : threads_(tbb::global_control::max_allowed_parallelism, workers + std::size_t{1}),
        arena_(static_cast<int>(workers), 0) {}

  void post(lab::pool_wakeup::task work) { arena_.enqueue(work); }

 private:
  tbb::global_control threads_;  // one of them is the main thread
  tbb::task_arena arena_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::pool_wakeup::contender_main<tbb_pool>(argc, argv, {{"oneTBB", TBB_VERSION_STRING}});
}
