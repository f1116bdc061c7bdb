// SPDX-License-Identifier: Apache-2.0
// oneTBB: parallel_reduce down to single elements, and parallel_invoke. The default partitioner
// splits where workers are idle, as gyre's reduction does. All pairs share a context, as a context
// of its own would cost a pair up to a fifth. The calling thread is one of the workers.
#include <lab/experiments/fork_join/tbb_workers.hpp>
#include <lab/experiments/grain/workload.hpp>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/parallel_reduce.h>
#include <oneapi/tbb/task_group.h>
#include <oneapi/tbb/version.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace {

class tbb_pool {
 public:
  explicit tbb_pool(std::uint32_t workers) : workers_(workers) {}

  std::uint64_t all_at_once(const lab::grain::tasks& all) {
    using range = tbb::blocked_range<std::size_t>;
    return workers_.run([&] {
      return tbb::parallel_reduce(
          range(0, all.count, 1), std::uint64_t{0},
          [&](const range& some, std::uint64_t sum) {
            for (std::size_t i = some.begin(); i != some.end(); ++i) sum += all.run(i);
            return sum;
          },
          std::plus());
    });
  }
  std::uint64_t pairs(const lab::grain::tasks& all) {
    return workers_.run([&] {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i + 1 < all.count; i += 2) {
        std::uint64_t a = 0;
        std::uint64_t b = 0;
        tbb::parallel_invoke([&] { a = all.run(i); }, [&] { b = all.run(i + 1); }, context_);
        sum += a + b;
      }
      if (all.count % 2 != 0) sum += all.run(all.count - 1);
      return sum;
    });
  }

 private:
  lab::fork_join::tbb_workers workers_;
  tbb::task_group_context context_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::grain::contender_main<tbb_pool>(argc, argv, {{"oneTBB", TBB_VERSION_STRING}});
}
