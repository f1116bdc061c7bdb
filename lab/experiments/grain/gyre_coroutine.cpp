// SPDX-License-Identifier: Apache-2.0
// gyre: when_all of gyre::task on a pool that steals.
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <lab/experiments/grain/coroutines.hpp>
#include <lab/experiments/grain/workload.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

struct runtime {
  template <class T>
  using task = gyre::task<T>;

  template <class T>
  static auto both(gyre::task<T> a, gyre::task<T> b) {
    return gyre::when_all(std::move(a), std::move(b));
  }
  template <class T>
  static auto all(std::vector<gyre::task<T>>& tasks) {
    return gyre::when_all(std::move(tasks));
  }
};

class gyre_pool {
 public:
  explicit gyre_pool(std::uint32_t workers) : pool_(std::size_t{workers}) {}

  std::uint64_t all_at_once(const lab::grain::tasks& all) {
    return gyre::sync_wait(gyre::on(pool_, lab::grain::all_at_once<runtime>(all)));
  }
  std::uint64_t pairs(const lab::grain::tasks& all) {
    return gyre::sync_wait(gyre::on(pool_, lab::grain::pairs<runtime>(all)));
  }

 private:
  gyre::thread_pool pool_;
};

}  // namespace

int main(int argc, char** argv) { return lab::grain::contender_main<gyre_pool>(argc, argv); }
