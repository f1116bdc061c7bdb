// SPDX-License-Identifier: Apache-2.0
// cppcoro: when_all of cppcoro::task on its static_thread_pool; all children but the last go
// through the pool's queue, the only way to let other threads run them.
#include <lab/experiments/fork_join/coroutines.hpp>
#include <lab/experiments/fork_join/workload.hpp>

#include <cppcoro/schedule_on.hpp>
#include <cppcoro/static_thread_pool.hpp>
#include <cppcoro/sync_wait.hpp>
#include <cppcoro/task.hpp>
#include <cppcoro/when_all.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

// The workers of the program's only pool.
cppcoro::static_thread_pool* workers = nullptr;

struct runtime {
  template <class T>
  using task = cppcoro::task<T>;

  template <class T>
  static auto both(cppcoro::task<T> a, cppcoro::task<T> b) {
    return cppcoro::when_all(cppcoro::schedule_on(*workers, std::move(a)), std::move(b));
  }
  template <class T>
  static auto all(std::vector<cppcoro::task<T>>& tasks) {
    for (std::size_t i = 0; i + 1 < tasks.size(); ++i) {
      tasks[i] = cppcoro::schedule_on(*workers, std::move(tasks[i]));
    }
    return cppcoro::when_all(std::move(tasks));
  }
};

class cppcoro_pool {
 public:
  explicit cppcoro_pool(std::uint32_t threads) : pool_(threads) { workers = &pool_; }

  std::uint64_t solve(lab::fork_join::problem& what) {
    return cppcoro::sync_wait(cppcoro::schedule_on(pool_, lab::fork_join::solve<runtime>(what)));
  }

 private:
  cppcoro::static_thread_pool pool_;
};

}  // namespace

int main(int argc, char** argv) { return lab::fork_join::contender_main<cppcoro_pool>(argc, argv); }
