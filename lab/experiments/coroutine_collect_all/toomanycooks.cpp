// SPDX-License-Identifier: Apache-2.0
// TooManyCooks: task<int> and spawn_many on its single-threaded executor, which this thread runs,
// and on its executor with threads of its own. It has no tasks without an executor.
#define TMC_IMPL
#include <lab/experiments/coroutine_collect_all/workload.hpp>

#include <tmc/ex_cpu.hpp>
#include <tmc/ex_manual_st.hpp>
#include <tmc/spawn_many.hpp>
#include <tmc/sync.hpp>
#include <tmc/task.hpp>

#include <cstdint>
#include <utility>

namespace {

struct runtime {
  template <class T>
  using task = tmc::task<T>;
};

tmc::task<std::uint64_t> collect_all(std::uint32_t tasks) {
  auto chains = lab::coroutine_collect_all::make_tasks<runtime>(tasks);
  const auto values = co_await tmc::spawn_many(chains);
  std::uint64_t sum = 0;
  for (const int each : values) sum += static_cast<std::uint64_t>(each);
  co_return sum;
}

class loop_collector {
 public:
  loop_collector() { loop_.init(); }

  std::uint64_t collect(std::uint32_t tasks) {
    auto sum = tmc::post_waitable(loop_, collect_all(tasks));
    loop_.run_all();
    return sum.get();
  }

 private:
  tmc::ex_manual_st loop_;
};

class pool_collector {
 public:
  pool_collector() { pool_.set_thread_count(lab::coroutine_collect_all::pool_threads).init(); }

  std::uint64_t collect(std::uint32_t tasks) {
    return tmc::post_waitable(pool_, collect_all(tasks)).get();
  }

 private:
  tmc::ex_cpu pool_;
};

}  // namespace

int main(int argc, char** argv) {
  using lab::coroutine_collect_all::not_offered;
  return lab::coroutine_collect_all::contender_main<not_offered, loop_collector, pool_collector>(
      argc, argv, {{"TooManyCooks", "1.7"}});
}
