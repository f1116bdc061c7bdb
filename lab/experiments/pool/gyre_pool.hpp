// SPDX-License-Identifier: Apache-2.0
// gyre's thread pool with a given scheduler, bounded as it is by default: when it is full, users
// wait.
#pragma once

#include <gyre/pool/thread_pool.hpp>
#include <lab/experiments/pool/workload.hpp>

#include <cstdint>
#include <utility>

namespace lab::pool {

template <gyre::scheduler Scheduler>
class gyre_pool {
 public:
  explicit gyre_pool(std::uint32_t workers)
      : pool_(gyre::thread_pool_options{.workers = workers, .scheduler = Scheduler}) {}

  template <class F>
  bool post(F&& task) {
    pool_.post(std::forward<F>(task));
    return true;
  }

 private:
  gyre::thread_pool pool_;
};

}  // namespace lab::pool
