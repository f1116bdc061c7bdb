// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/child_set.hpp>

namespace gyre::detail {

#if GYRE_ASYNC_BACKTRACE

void child_set::attach_to(task_context& parent) noexcept {
  parent_ = &parent;
  outer_ = parent.child_sets;
  parent.child_sets = this;
}

child_set::~child_set() {
  if (parent_ == nullptr) return;
  child_set** each = &parent_->child_sets;
  while (*each != this) each = &(*each)->outer_;
  *each = outer_;
}

#endif

}  // namespace gyre::detail
