// SPDX-License-Identifier: Apache-2.0
// TooManyCooks: spawn_tuple and spawn_many of tmc::task on its executor of several threads.
#define TMC_IMPL
#include <lab/experiments/grain/coroutines.hpp>
#include <lab/experiments/grain/workload.hpp>

#include <tmc/ex_cpu.hpp>
#include <tmc/spawn_many.hpp>
#include <tmc/spawn_tuple.hpp>
#include <tmc/sync.hpp>
#include <tmc/task.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace {

struct runtime {
  template <class T>
  using task = tmc::task<T>;

  template <class T>
  static auto both(tmc::task<T> a, tmc::task<T> b) {
    return tmc::spawn_tuple(std::move(a), std::move(b));
  }
  template <class T>
  static auto all(std::vector<tmc::task<T>>& tasks) {
    return tmc::spawn_many(tasks);
  }
};

class tmc_pool {
 public:
  explicit tmc_pool(std::uint32_t workers) { pool_.set_thread_count(workers).init(); }

  std::uint64_t all_at_once(const lab::grain::tasks& all) {
    return tmc::post_waitable(pool_, lab::grain::all_at_once<runtime>(all)).get();
  }
  std::uint64_t pairs(const lab::grain::tasks& all) {
    return tmc::post_waitable(pool_, lab::grain::pairs<runtime>(all)).get();
  }

 private:
  tmc::ex_cpu pool_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::grain::contender_main<tmc_pool>(argc, argv, {{"TooManyCooks", "1.7"}});
}
