// SPDX-License-Identifier: Apache-2.0
// The floor: plain recursion on the calling thread.
#include <lab/experiments/fork_join/functions.hpp>
#include <lab/experiments/fork_join/workload.hpp>

#include <cstddef>
#include <cstdint>

namespace {

class calls {
 public:
  explicit calls(std::uint32_t) {}

  std::uint64_t solve(lab::fork_join::problem& what) { return lab::fork_join::solve(*this, what); }

  template <class F, class G>
  void both(F f, G g) {
    f();
    g();
  }
  template <class F>
  std::uint64_t sum(std::size_t count, F f) {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < count; ++i) all += f(i);
    return all;
  }
  template <class F>
  void each(std::size_t count, F f) {
    for (std::size_t i = 0; i < count; ++i) f(i);
  }
};

}  // namespace

int main(int argc, char** argv) { return lab::fork_join::contender_main<calls>(argc, argv); }
