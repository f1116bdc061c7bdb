// SPDX-License-Identifier: Apache-2.0
// gyre: parallel_invoke, parallel_reduce and parallel_for on a pool that steals.
#include <gyre/pool/parallel.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <lab/experiments/fork_join/functions.hpp>
#include <lab/experiments/fork_join/workload.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace {

class gyre_pool {
 public:
  explicit gyre_pool(std::uint32_t workers) : pool_(std::size_t{workers}) {}

  std::uint64_t solve(lab::fork_join::problem& what) {
    std::uint64_t answer = 0;
    gyre::parallel_invoke(pool_, [&] { answer = lab::fork_join::solve(*this, what); });
    return answer;
  }

  template <class F, class G>
  void both(F f, G g) {
    gyre::parallel_invoke(pool_, f, g);
  }
  template <class F>
  std::uint64_t sum(std::size_t count, F f) {
    return gyre::parallel_reduce(pool_, std::size_t{0}, count, std::uint64_t{0}, f, std::plus(),
                                 {.grain = 1});
  }
  template <class F>
  void each(std::size_t count, F f) {
    gyre::parallel_for(pool_, std::size_t{0}, count, f);
  }

 private:
  gyre::thread_pool pool_;
};

}  // namespace

int main(int argc, char** argv) { return lab::fork_join::contender_main<gyre_pool>(argc, argv); }
