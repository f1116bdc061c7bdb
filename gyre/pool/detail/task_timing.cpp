// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/task_timing.hpp>

#include <gyre/pool/detail/pool_worker.hpp>

namespace gyre::detail {

task_timing::task_timing(steady_time submit_time) noexcept : worker_(this_worker) {
  if (worker_ == nullptr) return;
  start_time_ = monotonic_now();
  if (worker_->queue_wait) worker_->queue_wait->record(start_time_ - submit_time);
}
task_timing::~task_timing() {
  if (worker_ != nullptr && worker_->run_time) {
    worker_->run_time->record(monotonic_now() - start_time_);
  }
}

}  // namespace gyre::detail
