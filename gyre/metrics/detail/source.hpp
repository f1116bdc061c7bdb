// SPDX-License-Identifier: Apache-2.0
// source: an object that is registered in a registry of metrics.
#pragma once

#include <gyre/base/histogram.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/metrics/detail/watched_executor.hpp>
#include <gyre/metrics/exposition.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>

namespace gyre::metrics::detail {

/// The description of a source, as registry::add() makes it.
struct source_settings {
  /// The value of the label `name` of all samples; empty: they have no such label.
  std::string name;
  /// The type of the counts; two sources of one type have different names.
  std::type_index type = typeid(void);
  /// The executor that must read the object; null: any thread may.
  executor* owner = nullptr;
  /// The object itself, if it is an executor, so that its response is timed; otherwise null.
  executor* self = nullptr;
  move_only_function<void(exposition&)> write;
};

/// Thread-safety: any thread.
class source {
 public:
  source(source_settings settings, std::shared_ptr<watched_executor> reader) noexcept
      : settings_(std::move(settings)), executor_(std::move(reader)) {}

  [[nodiscard]] const std::string& name() const noexcept { return settings_.name; }
  [[nodiscard]] std::type_index type() const noexcept { return settings_.type; }
  [[nodiscard]] bool is_read_by_owner() const noexcept { return settings_.owner != nullptr; }
  [[nodiscard]] bool is_executor() const noexcept { return settings_.self != nullptr; }
  /// The executor that reads the object, or that the object is; null if there is neither.
  [[nodiscard]] const std::shared_ptr<watched_executor>& executor() const noexcept {
    return executor_;
  }

  /// Adds the samples of the object, unless it was removed. Returns false if its function has
  /// thrown.
  [[nodiscard]] bool read(exposition& output);
  /// Waits for the end of a read() on another thread; the object is not used afterwards.
  void remove() noexcept;

  void record_response(std::chrono::nanoseconds delay);
  /// Adds the time that the executor took for its responses, and whether it has responded now.
  void write_responses(exposition& output, bool has_responded);

 private:
  source_settings settings_;
  const std::shared_ptr<watched_executor> executor_;
  std::mutex mutex_;  // guards the members below and settings_.write
  bool is_removed_ = false;
  histogram delays_;
};

}  // namespace gyre::metrics::detail
