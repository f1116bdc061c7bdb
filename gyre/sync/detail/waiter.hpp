// SPDX-License-Identifier: Apache-2.0
// waiter: a coroutine in a primitive's list, and the protocol by which it leaves.
//
// A waiter lives in the awaiter, so waiting allocates nothing. It joins the primitive's list, and
// leaves it once: completed by another coroutine or thread, cancelled by its stop token, or taken
// along by the destruction of its coroutine. The primitive's lock decides which; then, outside of
// the lock, the winner posts the waiter to its executor, and after that the waiter may be gone.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/resumption.hpp>

#include <cassert>
#include <utility>

namespace gyre::detail {

/// The stage of a wait.
enum class wait_stage : unsigned char {
  begun,   // in no list
  listed,  // in the list of a primitive
  completed,
  cancelled,
};

/// A waiting coroutine, from which primitives derive waiters with data of their own. Copies are new
/// waiters: an awaiter may be moved until it is awaited.
///
/// | stage     | join() | complete() | withdraw()       |
/// |-----------|--------|------------|------------------|
/// | begun     | listed | completed  | cancelled, false |
/// | listed    | -      | completed  | cancelled, true  |
/// | completed | -      | -          | false            |
/// | cancelled | -      | completed  | false            |
class waiter : public resumption, public intrusive_list_node {
 public:
  waiter() noexcept = default;
  waiter(const waiter&) noexcept : waiter() {}
  waiter& operator=(const waiter&) = delete;

  // With the primitive's lock held:

  [[nodiscard]] bool is_cancelled() const noexcept { return stage_ == wait_stage::cancelled; }

  /// Joins the end of `list`.
  template <class Waiter>
  void join(intrusive_list<Waiter>& list) noexcept {
    list.push_back(static_cast<Waiter&>(*this));
    stage_ = wait_stage::listed;
  }

  /// Takes it out of its list, if any; it can no longer be cancelled.
  void complete() noexcept {
    unlink();
    stage_ = wait_stage::completed;
  }

  /// Takes it out of its list. True: the caller resumes it. False if it was completed before, or is
  /// in no list yet; it does not join one then.
  bool withdraw() noexcept {
    if (stage_ == wait_stage::completed) return false;
    unlink();
    return std::exchange(stage_, wait_stage::cancelled) == wait_stage::listed;
  }

  /// Resumes the coroutine through its executor; from then on the waiter may be gone. Without the
  /// lock, by the caller that took it out of its list.
  void wake() noexcept { context_->where->post(*this); }

 protected:
  ~waiter() = default;

  const task_context* context_ = nullptr;  // null unless its coroutine is suspended
  wait_stage stage_ = wait_stage::begun;   // belongs to the primitive's lock while it is suspended
};

/// Waiters that are completed under a lock, and woken after it: declare it before the lock.
class woken_waiters {
 public:
  woken_waiters() noexcept = default;
  woken_waiters& operator=(woken_waiters&&) = delete;
  ~woken_waiters() {
    while (waiter* each = ready_.pop_front()) each->wake();
  }

  /// With the lock of `served` held.
  void complete(waiter& served) noexcept {
    served.complete();
    ready_.push_back(served);
  }

 private:
  intrusive_queue<waiter> ready_;
};

}  // namespace gyre::detail
