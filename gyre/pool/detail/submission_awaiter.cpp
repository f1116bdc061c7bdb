// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/submission_awaiter.hpp>

#include <gyre/pool/detail/pool_core.hpp>

#include <utility>

namespace gyre::detail {

slot_awaiter::slot_awaiter(pool_core& pool, task_priority priority) noexcept
    : pool_(&pool), priority_(priority), acquire_(pool.admission().slots().permit()) {}

[[gnu::noinline]] bool slot_awaiter::submit_now(task_builder builder) {
  result_ = pool_->submit_or_wait(builder, priority_);
  return result_ != admission_result::must_wait;
}

void slot_awaiter::begin_wait() noexcept {
  pool_owner_ = pool_->shared_from_this();
  pool_->admission().join_line();
}

void slot_awaiter::abandon_wait() noexcept { pool_owner_->admission().leave_line(); }

[[gnu::noinline]] void slot_awaiter::finish(task_builder builder) {
  if (result_ == admission_result::must_wait) {
    const std::shared_ptr<pool_core> pool = std::move(pool_owner_);
    pool->admission().leave_line();
    semaphore_permit slot = acquire_.await_resume();
    result_ = slot.count() == 0 ? pool->admission().count_refusal(admission_result::closed)
                                : pool->submit_admitted(builder, priority_, std::move(slot));
  }
  if (result_ != admission_result::granted) throw_refused(result_);
}

}  // namespace gyre::detail
