// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/fork_join.hpp>

#include <gyre/base/slab.hpp>

#include <utility>

namespace gyre::detail {

const void* this_thread_mark() noexcept {
  static constinit thread_local char mark = 0;
  return &mark;
}

fork_join::~fork_join() {
  if (spare_ != nullptr) {
    spare_->next = running_;
    running_ = spare_;
  }
  while (child* each = running_) {
    running_ = each->next;
    each->~child();
    slab_deallocate(each, sizeof(child));
  }
}

fork_join::child& fork_join::next_child() {
  child* const reused = std::exchange(spare_, nullptr);
  void* const memory = reused != nullptr ? reused : slab_allocate(sizeof(child));
  spare_ = ::new (memory) child{inherited_, this, nullptr, nullptr};
  return *spare_;
}

void fork_join::keep_running() noexcept {
  child* const started = std::exchange(spare_, nullptr);
  started->next = running_;
  running_ = started;
}

void fork_join::child_failed(const task_end& end) noexcept {
  const task_end* none = nullptr;
  // relaxed: read when the count has ordered it.
  if (failed_.compare_exchange_strong(none, &end, std::memory_order_relaxed) && stop_) {
    stop_->request_stop();
  }
}

void fork_join::child_failed_to_start() noexcept {
  start_error_ = std::current_exception();
  if (stop_) stop_->request_stop();
}

std::coroutine_handle<> fork_join::child_finished(task_context& context) noexcept {
  auto& self = static_cast<child&>(context);
  fork_join& join = *self.join;
  // On another thread `starting_` is not ours to read.
  if (this_thread_mark() == join.thread_ && join.starting_ == &self) {
    join.starting_ = nullptr;
    return std::noop_coroutine();
  }
  // Before the count: until then the stop source is there.
  if (self.end->failed()) join.child_failed(*self.end);
  executor* const here = self.where;
  // release: our result is seen by whoever counts to zero, who acquires for the parent.
  if (join.pending_.fetch_sub(1, std::memory_order_acq_rel) != 1) return std::noop_coroutine();
  executor* const home = join.inherited_.where;
  if (here == home) return join.resumption_.waiting;
  home->post(join.resumption_);
  return std::noop_coroutine();
}

}  // namespace gyre::detail
