// SPDX-License-Identifier: Apache-2.0
// task_timing: measures how long tasks of a pool wait and run, for
// thread_pool_options::record_times.
#pragma once

#include <gyre/base/clock.hpp>

namespace gyre::detail {

class pool_worker;

/// Records how long a task has waited and, as the lifetime of this object, how long it runs, in the
/// histograms of the calling worker.
class task_timing {
 public:
  explicit task_timing(steady_time submit_time) noexcept;
  task_timing& operator=(task_timing&&) = delete;
  ~task_timing();

 private:
  pool_worker* worker_;
  steady_time start_time_{};
};

template <class F>
struct timed_callable {
  F callable;
  steady_time submitted = monotonic_now();

  void operator()() {
    const task_timing timing(submitted);
    static_cast<void>(callable());
  }
};

}  // namespace gyre::detail
