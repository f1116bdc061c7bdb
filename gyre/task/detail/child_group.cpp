// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/child_group.hpp>

namespace gyre::detail {

// A child's end, on its thread. Once the child is on the stack the parent may run, and child and
// group may be gone, unless the parent waits: then this function resumes it.
std::coroutine_handle<> child_group::on_child_end(task_context& context) noexcept {
  auto& self = static_cast<child&>(context);
  child_group& group = *self.group;
  const executor* const here = self.where;
  const auto newest = reinterpret_cast<std::uintptr_t>(&self);
  std::uintptr_t seen = group.newest_.load(std::memory_order_relaxed);  // relaxed: a first guess
  do {
    self.next = seen == parent_waits ? nullptr : reinterpret_cast<child*>(seen);
    // release: pairs with the acquire in take_ended_children(): the parent sees the child's result.
    // acquire: pairs with the release in begin_wait(): this sees how to resume the parent.
  } while (!group.newest_.compare_exchange_weak(seen, newest, std::memory_order_acq_rel,
                                                std::memory_order_relaxed));
  if (seen != parent_waits) return std::noop_coroutine();
  if (here == group.home_) return group.waiting;
  group.home_->post(group);
  return std::noop_coroutine();
}

// Puts the ended children into the order of their ends. False if there are none.
bool child_group::take_ended_children() noexcept {
  if (newest_.load(std::memory_order_relaxed) == 0) return false;  // relaxed: only a look
  // acquire: pairs with the release in on_child_end(); each push continues the release sequence.
  auto* each = reinterpret_cast<child*>(newest_.exchange(0, std::memory_order_acquire));
  while (each != nullptr) {
    child* const older = std::exchange(each->next, ended_);
    ended_ = std::exchange(each, older);
  }
  return true;
}

// Marks the parent as waiting. False if a child has ended meanwhile.
bool child_group::begin_wait() noexcept {
  std::uintptr_t none = 0;
  // release: pairs with the acquire in on_child_end(). relaxed: take_ended_children() reads with
  // acquire what was pushed.
  return newest_.compare_exchange_strong(none, parent_waits, std::memory_order_release,
                                         std::memory_order_relaxed);
}

child_group::child& child_group::pop_ended_child() noexcept {
  if (ended_ == nullptr) take_ended_children();
  child& oldest = *std::exchange(ended_, ended_->next);
  oldest.runs = false;
  --running_;
  return oldest;
}

}  // namespace gyre::detail
