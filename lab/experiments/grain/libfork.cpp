// SPDX-License-Identifier: Apache-2.0
// libfork: fork, call and join on its pool whose idle workers sleep; all at once by halving the
// range.
#include <lab/experiments/fork_join/libfork_calls.hpp>
#include <lab/experiments/grain/workload.hpp>

#include <libfork/core.hpp>
#include <libfork/schedule.hpp>

#include <cstddef>
#include <cstdint>

namespace {

using lab::fork_join::call;
using lab::fork_join::fork;
using lab::grain::tasks;

constexpr auto one = [](auto, const tasks* all, std::size_t index) -> lf::task<std::uint64_t> {
  co_return all->run(index);
};

constexpr auto sum_of = [](auto self, const tasks* all, std::size_t first,
                           std::size_t last) -> lf::task<std::uint64_t> {
  if (last - first == 1) co_return all->run(first);
  const std::size_t middle = first + (last - first) / 2;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  co_await fork(&a, self)(all, first, middle);
  co_await call(&b, self)(all, middle, last);
  co_await lf::join;
  co_return a + b;
};

constexpr auto sum_of_pairs = [](auto, const tasks* all) -> lf::task<std::uint64_t> {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 1 < all->count; i += 2) {
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    co_await fork(&a, one)(all, i);
    co_await call(&b, one)(all, i + 1);
    co_await lf::join;
    sum += a + b;
  }
  if (all->count % 2 != 0) sum += all->run(all->count - 1);
  co_return sum;
};

class libfork_pool {
 public:
  explicit libfork_pool(std::uint32_t workers) : pool_(workers) {}

  std::uint64_t all_at_once(const tasks& all) {
    return lf::sync_wait(pool_, sum_of, &all, std::size_t{0}, all.count);
  }
  std::uint64_t pairs(const tasks& all) { return lf::sync_wait(pool_, sum_of_pairs, &all); }

 private:
  lf::lazy_pool pool_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::grain::contender_main<libfork_pool>(argc, argv, {{"libfork", "3.8"}});
}
