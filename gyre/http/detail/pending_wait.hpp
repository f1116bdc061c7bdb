// SPDX-License-Identifier: Apache-2.0
// pending_wait: the wait of a coroutine for an event of its exchange.
#pragma once

#include <gyre/task/from_callback.hpp>

#include <optional>
#include <utility>

namespace gyre::http::detail {

/// The wait of at most one coroutine. wake() resumes the coroutine at once if it is called in a
/// turn of the coroutine's executor.
///
/// Thread-safety: the loop's thread.
class pending_wait {
 public:
  /// Ends the wait at the end of a block, even if the coroutine was stopped.
  class scope {
   public:
    explicit scope(pending_wait& wait) noexcept : wait_(wait) {}
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope() { wait_.completion_.reset(); }

   private:
    pending_wait& wait_;
  };

  bool has_begun() const noexcept { return completion_.has_value(); }
  /// Called when a coroutine begins to await from_callback().
  void begin(completion<void> callback) noexcept { completion_.emplace(std::move(callback)); }
  void wake() noexcept {
    if (!completion_) return;
    const completion<void> callback = *std::exchange(completion_, std::nullopt);
    callback.set_value();
  }

 private:
  std::optional<completion<void>> completion_;
};

}  // namespace gyre::http::detail
