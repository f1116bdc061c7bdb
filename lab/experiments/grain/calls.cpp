// SPDX-License-Identifier: Apache-2.0
// The floor: plain calls on one thread.
#include <lab/experiments/grain/workload.hpp>

#include <cstddef>
#include <cstdint>

namespace {

struct caller {
  explicit caller(std::uint32_t /*workers*/) {}

  std::uint64_t all_at_once(const lab::grain::tasks& all) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < all.count; ++i) sum += all.run(i);
    return sum;
  }
  std::uint64_t pairs(const lab::grain::tasks& all) { return all_at_once(all); }
};

}  // namespace

int main(int argc, char** argv) { return lab::grain::contender_main<caller>(argc, argv); }
