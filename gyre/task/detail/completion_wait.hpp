// SPDX-License-Identifier: Apache-2.0
// completion_wait: the wait for an operation that completes once, within its start or at any time
// later, on any thread.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/executor.hpp>

#include <cassert>
#include <coroutine>

namespace gyre::detail {

/// The coroutine's part of the wait: it starts the operation, then calls must_wait(). The end of
/// the operation calls complete(). The second of both decides: must_wait() lets the coroutine go
/// on, or complete() posts it to its executor. Allocates nothing.
class completion_wait : resumption {
 protected:
  completion_wait() noexcept = default;
  ~completion_wait() {
    // relaxed: a completion that is concurrent with this is an error anyway.
    assert(progress_.load(std::memory_order_relaxed) != waits &&
           "a coroutine was destroyed while it waited for an operation that cannot be abandoned");
  }

  void begin(std::coroutine_handle<> awaiting, executor& where) noexcept {
    waiting = awaiting;
    where_ = &where;
  }
  /// After the start of the operation. False if it has completed; if true, the coroutine will be
  /// resumed, and this may be gone.
  bool must_wait() noexcept {
    // acquire: pairs with the release in complete(): the outcome is seen. release: pairs with the
    // acquire there: the coroutine's earlier writes are seen where it is resumed.
    return (progress_.fetch_or(waits, std::memory_order_acq_rel) & completed) == 0;
  }
  /// After the outcome was stored. Any thread; this may be gone afterwards.
  void complete() noexcept {
    // acq_rel: see must_wait(); the executor's queue hands the outcome to the coroutine.
    if ((progress_.fetch_or(completed, std::memory_order_acq_rel) & waits) != 0) {
      where_->post(*this);
    }
  }

 private:
  enum progress : unsigned char { waits = 1, completed = 2 };

  executor* where_ = nullptr;
  atomic<unsigned char> progress_{0};
};

}  // namespace gyre::detail
