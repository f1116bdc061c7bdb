// SPDX-License-Identifier: Apache-2.0
// watched_executor: an executor that reads the counts of its objects for a registry of metrics.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/task/executor.hpp>

#include <cstddef>
#include <memory>
#include <mutex>

namespace gyre::metrics::detail {

class reading;

/// A handle of an executor that reads registered objects, or that is a registered object itself.
///
/// Thread-safety: any thread.
/// Lifetime: may outlive the executor, which is used only while an object is registered.
class watched_executor {
 public:
  explicit watched_executor(executor& target) noexcept : target_(&target) {}

  /// Counts the registered objects; the executor must live until the last was removed.
  void add_object() noexcept;
  void remove_object() noexcept;
  [[nodiscard]] bool has_objects() noexcept;
  [[nodiscard]] bool is(const executor& candidate) const noexcept { return target_ == &candidate; }

  /// Runs `work` on the executor: within the call if this thread is the executor's. Drops it, which
  /// counts as no response, if no object is registered any more, if max_pending readings wait for
  /// the executor already, or without memory.
  void run(reading work);

 private:
  friend reading;

  // The maximum of posted readings: they must not pile up while a loop is held and its metrics are
  // requested.
  static constexpr std::size_t max_pending = 8;

  executor* const target_;
  gyre::detail::atomic<std::size_t> pending_readings_{0};
  std::mutex mutex_;  // guards objects_, and keeps the executor alive during a post
  std::size_t objects_ = 0;
};

}  // namespace gyre::metrics::detail
