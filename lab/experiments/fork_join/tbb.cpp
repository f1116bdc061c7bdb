// SPDX-License-Identifier: Apache-2.0
// oneTBB: a task_group for each call that forks, which makes one of its calls itself, and
// parallel_for. All groups share a context, as a context of its own would double the cost of a
// group. The calling thread is one of the workers.
#include <lab/experiments/fork_join/functions.hpp>
#include <lab/experiments/fork_join/tbb_workers.hpp>
#include <lab/experiments/fork_join/workload.hpp>

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_group.h>
#include <oneapi/tbb/version.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace {

class tbb_pool {
 public:
  explicit tbb_pool(std::uint32_t workers) : workers_(workers) {}

  std::uint64_t solve(lab::fork_join::problem& what) {
    return workers_.run([&] { return lab::fork_join::solve(*this, what); });
  }

  template <class F, class G>
  void both(const F& f, const G& g) {
    tbb::task_group group(context_);
    group.run(f);
    g();
    group.wait();
  }
  template <class F>
  std::uint64_t sum(std::size_t count, const F& f) {
    if (count == 0) return 0;
    std::array<std::uint64_t, lab::fork_join::board::largest> results{};
    tbb::task_group group(context_);
    for (std::size_t i = 1; i < count; ++i) group.run([&, i] { results[i] = f(i); });
    results[0] = f(0);
    group.wait();
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < count; ++i) all += results[i];
    return all;
  }
  template <class F>
  void each(std::size_t count, const F& f) {
    tbb::parallel_for(std::size_t{0}, count, f);
  }

 private:
  lab::fork_join::tbb_workers workers_;
  tbb::task_group_context context_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::fork_join::contender_main<tbb_pool>(argc, argv, {{"oneTBB", TBB_VERSION_STRING}});
}
