// SPDX-License-Identifier: Apache-2.0
// gyre as a `Runtime`: when_all of gyre::task on a pool that steals.
#pragma once

#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lab::fork_join {

struct gyre_runtime {
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

  class pool {
   public:
    explicit pool(std::uint32_t workers) : workers_(std::size_t{workers}) {}

    template <class T>
    T run(gyre::task<T> work) {
      return gyre::sync_wait(gyre::on(workers_, std::move(work)));
    }

   private:
    gyre::thread_pool workers_;
  };
};

}  // namespace lab::fork_join
