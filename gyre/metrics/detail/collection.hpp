// SPDX-License-Identifier: Apache-2.0
// collection: the parts of one collection of metrics, which several executors read.
#pragma once

#include <gyre/metrics/exposition.hpp>
#include <gyre/sync/event.hpp>

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

namespace gyre::metrics::detail {

/// The coroutine that collects begins parts, waits for completed(), and takes the parts that have
/// come. Later ones are dropped.
///
/// Thread-safety: any thread.
class collection {
 public:
  struct part {
    exposition samples;
    std::size_t failures;
  };

  explicit collection(exposition_format format) noexcept : format_(format) {}

  [[nodiscard]] exposition_format format() const noexcept { return format_; }
  /// Adds a part, which end_part() must end, and returns its number.
  [[nodiscard]] std::size_t begin_part();
  void store_part(std::size_t number, exposition samples, std::size_t failures);
  void end_part() noexcept;
  /// Called after the last begin_part(). Returns whether all parts have ended.
  [[nodiscard]] bool close_list() noexcept;
  /// Set when all parts have ended, after close_list().
  [[nodiscard]] manual_reset_event& completed() noexcept { return completion_event_; }
  /// Ends the collection. A part that has not come is empty.
  [[nodiscard]] std::vector<std::optional<part>> take_parts() noexcept;

 private:
  const exposition_format format_;
  manual_reset_event completion_event_;
  std::mutex mutex_;  // guards the members below
  std::vector<std::optional<part>> parts_;
  std::size_t running_parts_ = 1;  // the parts that have not ended, plus one until close_list()
  bool was_taken_ = false;
};

}  // namespace gyre::metrics::detail
