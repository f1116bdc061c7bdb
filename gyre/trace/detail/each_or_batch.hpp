// SPDX-License-Identifier: Apache-2.0
// each_or_batch: decides whether the functions of a queue are recorded one by one.
#pragma once

#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <cstdint>

namespace gyre::trace::detail {

/// Decides whether each function of a queue is measured, or only a batch of them. Functions that
/// take less than min_function_length() on average are not measured, because that would cost more
/// than a hundredth of them.
///
/// Thread-safety: the thread of the recorder.
class each_or_batch {
 public:
  /// Whether to record each function of the next batch.
  [[nodiscard]] bool records_each() const noexcept { return records_each_; }
  /// Takes the length of a batch of `functions` functions, which is not zero.
  void end_batch(gyre::detail::tick_count length, std::uint64_t functions) noexcept {
    records_each_ = length >= functions * min_function_length();
  }

 private:
  bool records_each_ = true;
};

}  // namespace gyre::trace::detail
