// SPDX-License-Identifier: Apache-2.0
// oneTBB: task_arena::enqueue, its documented way to submit work from threads that do not wait for
// it; the queue is unbounded. The arena reserves no slot for users, and has as many workers as the
// other pools: by default oneTBB has one worker fewer than CPUs.
#include <lab/experiments/pool/workload.hpp>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/version.h>

#include <cstdint>
#include <utility>

namespace {

class tbb_pool {
 public:
  explicit tbb_pool(std::uint32_t workers)
      : threads_(tbb::global_control::max_allowed_parallelism, workers + std::size_t{1}),
        arena_(static_cast<int>(workers), 0) {}

  template <class F>
  bool post(F&& task) {
    arena_.enqueue(std::forward<F>(task));
    return true;
  }

 private:
  tbb::global_control threads_;  // one of them is the main thread
  tbb::task_arena arena_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::pool::contender_main<tbb_pool>(argc, argv, {{"oneTBB", TBB_VERSION_STRING}});
}
