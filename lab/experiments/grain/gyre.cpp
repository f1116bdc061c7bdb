// SPDX-License-Identifier: Apache-2.0
// gyre: parallel_reduce with one task for each element, and parallel_invoke, on a pool that steals.
#include <gyre/pool/parallel.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <lab/experiments/grain/workload.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace {

class gyre_pool {
 public:
  explicit gyre_pool(std::uint32_t workers) : pool_(std::size_t{workers}) {}

  std::uint64_t all_at_once(const lab::grain::tasks& all) {
    return gyre::parallel_reduce(pool_, std::size_t{0}, all.count, std::uint64_t{0},
                                 [&](std::size_t i) { return all.run(i); }, std::plus(),
                                 {.grain = 1});
  }
  std::uint64_t pairs(const lab::grain::tasks& all) {
    std::uint64_t sum = 0;
    gyre::parallel_invoke(pool_, [&] {
      for (std::size_t i = 0; i + 1 < all.count; i += 2) {
        std::uint64_t a = 0;
        std::uint64_t b = 0;
        gyre::parallel_invoke(pool_, [&] { a = all.run(i); }, [&] { b = all.run(i + 1); });
        sum += a + b;
      }
    });
    if (all.count % 2 != 0) sum += all.run(all.count - 1);
    return sum;
  }

 private:
  gyre::thread_pool pool_;
};

}  // namespace

int main(int argc, char** argv) { return lab::grain::contender_main<gyre_pool>(argc, argv); }
