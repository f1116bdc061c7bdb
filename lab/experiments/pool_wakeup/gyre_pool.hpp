// SPDX-License-Identifier: Apache-2.0
// gyre's thread pool with a given scheduler.
#pragma once

#include <gyre/pool/thread_pool.hpp>
#include <lab/experiments/pool_wakeup/workload.hpp>

#include <cstdint>

namespace lab::pool_wakeup {

template <gyre::scheduler Scheduler>
class gyre_pool {
 public:
  explicit gyre_pool(std::uint32_t workers)
      : pool_(gyre::thread_pool_options{.workers = workers, .scheduler = Scheduler}) {}

  void post(task work) { pool_.post(work); }

 private:
  gyre::thread_pool pool_;
};

}  // namespace lab::pool_wakeup
