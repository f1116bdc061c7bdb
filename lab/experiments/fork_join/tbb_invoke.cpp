// SPDX-License-Identifier: Apache-2.0
// oneTBB's parallel_invoke of as many calls as a call forks, and parallel_for. All calls share a
// context, as a context of its own would double the cost of a call. The calling thread is one of
// the workers.
#include <lab/experiments/fork_join/functions.hpp>
#include <lab/experiments/fork_join/tbb_workers.hpp>
#include <lab/experiments/fork_join/workload.hpp>

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/task_group.h>
#include <oneapi/tbb/version.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

namespace {

using lab::fork_join::board;

class tbb_invoke_pool {
 public:
  explicit tbb_invoke_pool(std::uint32_t workers) : workers_(workers) {}

  std::uint64_t solve(lab::fork_join::problem& what) {
    return workers_.run([&] { return lab::fork_join::solve(*this, what); });
  }

  template <class F, class G>
  void both(const F& f, const G& g) {
    tbb::parallel_invoke(f, g, context_);
  }
  template <class F>
  std::uint64_t sum(std::size_t count, const F& f) {
    if (count < 2) return count == 0 ? 0 : f(0);
    std::array<std::uint64_t, board::largest> results{};
    const auto call = [&](std::size_t i) { results[i] = f(i); };
    [&]<std::size_t... N>(std::index_sequence<N...>) {
      (void)((count == N + 2 && (invoke(call, std::make_index_sequence<N + 2>()), true)) || ...);
    }(std::make_index_sequence<board::largest - 1>());
    return std::accumulate(results.begin(), results.end(), std::uint64_t{0});
  }
  template <class F>
  void each(std::size_t count, const F& f) {
    tbb::parallel_for(std::size_t{0}, count, f);
  }

 private:
  template <class F, std::size_t... I>
  void invoke(const F& f, std::index_sequence<I...>) {
    tbb::parallel_invoke([&f] { f(I); }..., context_);
  }

  lab::fork_join::tbb_workers workers_;
  tbb::task_group_context context_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::fork_join::contender_main<tbb_invoke_pool>(argc, argv,
                                                         {{"oneTBB", TBB_VERSION_STRING}});
}
