// SPDX-License-Identifier: Apache-2.0
// yield_schedule: after which looks for tasks a loop that stays awake yields its processor.
#pragma once

#include <algorithm>

namespace gyre::detail {

/// A producer that shares the loop's processor cannot post while the loop looks for tasks, so a
/// loop yields after every `interval` looks. If yields have brought the tasks of the last `proof`
/// spins, the next spin yields after its first look. Once in `probe_interval` spins it does not,
/// because a producer that has moved to another processor posts without a yield.
class yield_schedule {
 public:
  static constexpr int interval = 32;
  static constexpr int proof = 8;
  static constexpr unsigned probe_interval = 16;

  void start_spin() noexcept {
    yields_first_ = paid_yields_ >= proof && ++spin_count_ % probe_interval != 0;
  }
  /// Returns whether a spin of so many looks may yield.
  bool may_yield(int looks) const noexcept { return looks >= interval || yields_first_; }
  /// Returns whether the loop yields after look number `look`, counted from 1.
  bool must_yield(int look) const noexcept {
    return look % interval == 0 || (look == 1 && yields_first_);
  }
  /// Records that look number `look` has found a task. The first look tells nothing about yields.
  void record_success(int look) noexcept {
    if (look > 1) paid_yields_ = must_yield(look - 1) ? std::min(paid_yields_ + 1, proof) : 0;
  }
  /// Records that no look has found a task.
  void record_failure() noexcept { paid_yields_ = 0; }

 private:
  int paid_yields_ = 0;        // spins in a row whose task a yield has brought, at most `proof`
  bool yields_first_ = false;  // whether the current spin yields after its first look
  unsigned spin_count_ = 0;    // spins that began while yields paid
};

}  // namespace gyre::detail
