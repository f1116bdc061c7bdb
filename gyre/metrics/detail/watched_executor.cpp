// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/detail/watched_executor.hpp>

#include <gyre/metrics/detail/reading.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>

#include <atomic>
#include <new>
#include <utility>

namespace gyre::metrics::detail {
namespace {

task<> run_reading(reading work) {
  work.run();
  co_return;
}

}  // namespace

void watched_executor::add_object() noexcept {
  const std::lock_guard lock(mutex_);
  ++objects_;
}

void watched_executor::remove_object() noexcept {
  const std::lock_guard lock(mutex_);
  --objects_;
}

bool watched_executor::has_objects() noexcept {
  const std::lock_guard lock(mutex_);
  return objects_ != 0;
}

void watched_executor::run(reading work) {
  if (target_->running_here()) return work.run();
  const std::lock_guard lock(mutex_);
  if (objects_ == 0) return;
  // relaxed: the count orders nothing.
  if (pending_readings_.load(std::memory_order_relaxed) >= max_pending) return;
  work.count();
  try {
    spawn(*target_, run_reading(std::move(work)), {.name = "metrics"});
    // NOLINTNEXTLINE(bugprone-empty-catch): counts as no response
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace gyre::metrics::detail
