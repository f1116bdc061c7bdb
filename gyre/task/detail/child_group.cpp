// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/child_group.hpp>

namespace gyre::detail {

// Called on the thread on which the child of `context` ends. Once the child is on the stack, the
// parent may run and destroy child and group, unless the parent waits: then this function resumes
// it.
std::coroutine_handle<> child_group::on_child_end(task_context& context) noexcept {
  auto& self = static_cast<child&>(context);
  child_group& group = *self.group;
  const executor* const end_executor = self.where;
  const auto newest = reinterpret_cast<std::uintptr_t>(&self);
  // relaxed: the compare-exchange reads the word again.
  std::uintptr_t expected = group.newest_.load(std::memory_order_relaxed);
  do {
    self.next = expected == parent_waits ? nullptr : reinterpret_cast<child*>(expected);
    // release: pairs with the acquire in take_ended_children(); makes the child's result visible to
    // the parent. acquire: pairs with the release in begin_wait(); makes `waiting` and
    // `parent_executor_` visible here.
  } while (!group.newest_.compare_exchange_weak(expected, newest, std::memory_order_acq_rel,
                                                std::memory_order_relaxed));
  if (expected != parent_waits) return std::noop_coroutine();
  if (end_executor == group.parent_executor_) return group.waiting;
  group.parent_executor_->post(group);
  return std::noop_coroutine();
}

// Moves the ended children from the stack to the list `ended_children_`, into the order of their
// ends. Returns false if there are none.
bool child_group::take_ended_children() noexcept {
  // relaxed: the exchange below acquires.
  if (newest_.load(std::memory_order_relaxed) == 0) return false;
  // acquire: pairs with the release in on_child_end(); makes the results of all children on the
  // stack visible, as each push continues the release sequence.
  auto* newest = reinterpret_cast<child*>(newest_.exchange(0, std::memory_order_acquire));
  while (newest != nullptr) {
    child* const next_child = std::exchange(newest->next, ended_children_);
    ended_children_ = std::exchange(newest, next_child);
  }
  return true;
}

// Marks the parent as waiting. Returns false if a child has ended since the last look at the stack.
bool child_group::begin_wait() noexcept {
  std::uintptr_t expected_word = 0;
  // release: pairs with the acquire in on_child_end(); makes `waiting` and `parent_executor_`
  // visible to the child that resumes the parent. relaxed on failure: take_ended_children()
  // acquires.
  return newest_.compare_exchange_strong(expected_word, parent_waits, std::memory_order_release,
                                         std::memory_order_relaxed);
}

child_group::child& child_group::pop_ended_child() noexcept {
  if (ended_children_ == nullptr) take_ended_children();
  child& oldest = *std::exchange(ended_children_, ended_children_->next);
  oldest.runs = false;
  --running_count_;
  return oldest;
}

}  // namespace gyre::detail
