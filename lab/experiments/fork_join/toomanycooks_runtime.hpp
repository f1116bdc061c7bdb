// SPDX-License-Identifier: Apache-2.0
// TooManyCooks as a `Runtime`: spawn_tuple and spawn_many of tmc::task on its executor of several
// threads. A program has TMC_IMPL defined in the source that includes this.
#pragma once

#include <tmc/ex_cpu.hpp>
#include <tmc/spawn_many.hpp>
#include <tmc/spawn_tuple.hpp>
#include <tmc/sync.hpp>
#include <tmc/task.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace lab::fork_join {

struct toomanycooks_runtime {
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

  class pool {
   public:
    explicit pool(std::uint32_t workers) { workers_.set_thread_count(workers).init(); }

    template <class T>
    T run(tmc::task<T> work) {
      return tmc::post_waitable(workers_, std::move(work)).get();
    }

   private:
    tmc::ex_cpu workers_;
  };
};

}  // namespace lab::fork_join
