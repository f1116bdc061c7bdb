// SPDX-License-Identifier: Apache-2.0
// blocking_call: calls that may block, made on a thread of a pool while a coroutine waits.
//
// The pool's queue holds not the awaiter but a ticket from the slab, which stays in the queue when
// the coroutine is destroyed: a coroutine that is asked to stop while the call waits for a thread
// is resumed at once. A call that has begun uses the coroutine's memory, so the coroutine's
// destruction waits for its end. The ticket also wakes the coroutine, and stays in the executor's
// queue if the coroutine is destroyed before the wake-up runs.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <coroutine>
#include <optional>

namespace gyre::io::detail {

/// The work of a blocking_call.
class blocking_work {
 public:
  /// Makes the calls, on a thread of the pool.
  virtual void run() noexcept = 0;

 protected:
  ~blocking_work() = default;
};

/// Returns blocking_pool(), for code that does not include its header.
executor& default_pool();

/// The wait for the end of a blocking_work on a pool.
class blocking_call {
 public:
  /// `pool`: null for default_pool(). `is_stoppable`: whether a stop withdraws calls that have not
  /// begun.
  blocking_call(executor* pool, blocking_work& work, bool is_stoppable) noexcept
      : pool_(pool), work_(work), is_stoppable_(is_stoppable) {}
  blocking_call& operator=(blocking_call&&) = delete;

  /// Withdraws the calls, or waits for their end, if the coroutine is destroyed while it waits.
  ~blocking_call() {
    if (ticket_ != nullptr) [[unlikely]]
      abandon();
  }
  /// Returns false if there is nothing to wait for; then no call is made.
  bool begin(std::coroutine_handle<> coroutine, const task_context& context);
  /// Called when the coroutine is resumed. Returns whether the calls were made.
  bool end() noexcept;

 private:
  class ticket;
  struct on_stop {
    blocking_call* self;
    void operator()() const noexcept { self->withdraw(); }
  };

  void withdraw() noexcept;
  void abandon() noexcept;

  std::coroutine_handle<> coroutine_;
  executor* pool_;
  blocking_work& work_;
  const task_context* context_ = nullptr;  // the coroutine's context; null before the await
  ticket* ticket_ = nullptr;
  std::optional<inplace_stop_callback<on_stop>> stop_callback_;
  bool is_stoppable_;
  bool were_calls_made_ = false;
};

}  // namespace gyre::io::detail
