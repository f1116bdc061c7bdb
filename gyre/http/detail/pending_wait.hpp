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
    ~scope() { wait_.done_.reset(); }

   private:
    pending_wait& wait_;
  };

  bool has_begun() const noexcept { return done_.has_value(); }
  /// Called when a coroutine begins to await from_callback().
  void begin(completion<void> done) noexcept { done_.emplace(std::move(done)); }
  void wake() noexcept {
    if (!done_) return;
    const completion<void> done = *std::exchange(done_, std::nullopt);
    done.set_value();
  }

 private:
  std::optional<completion<void>> done_;
};

}  // namespace gyre::http::detail
