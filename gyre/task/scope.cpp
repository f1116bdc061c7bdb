// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/scope.hpp>

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/operation.hpp>

#include <cstdio>
#include <cstdlib>

namespace gyre {

const char* scope_error::what() const noexcept { return "tasks of a gyre::scope failed"; }

// Owns itself: from spawn() until its coroutine has ended.
class scope::child final : public detail::slab_object,
                           public task_context,
                           public operation,
                           public intrusive_list_node {
 public:
  child(scope& owner, executor& target, task<>&& work,
        [[maybe_unused]] const char* task_name) noexcept
      : task_context(owner.inherited_),
        operation([](operation& self) {
          auto& started = static_cast<child&>(self);
          detail::task_access::state(started.work_).start(started);
        }),
        scope_(owner),
        work_(std::move(work)) {
    where = &target;
    finished = &end;
#if GYRE_ASYNC_BACKTRACE
    name = task_name;
    detail::task_access::state(work_).prepare(*this);  // so that the task is known before it begins
#endif
  }

  operation& starter() noexcept { return *this; }

 private:
  static std::coroutine_handle<> end(task_context& context) noexcept {
    auto& self = static_cast<child&>(context);
    scope& owner = self.scope_;
    const executor* const here = self.where;
    if (std::exception_ptr error = detail::task_access::state(self.work_).take_error()) {
      owner.add_error(std::move(error));
    }
#if GYRE_ASYNC_BACKTRACE
    {
      const std::lock_guard lock(owner.mutex_);
      self.unlink();
    }
#endif
    delete &self;
    return owner.finish_task(here);
  }

  scope& scope_;
  task<> work_;
};

scope::scope(inplace_stop_token parent, scope_errors policy) noexcept
    : stop_(parent), policy_(policy) {}

scope::~scope() {
  // relaxed: the tasks have ended before, and are seen, or the program is lost.
  if (open_.load(std::memory_order_relaxed) < one_task) return;
  std::fputs("gyre: with_scope() was destroyed while tasks of the scope were running\n", stderr);
  std::abort();
}

void scope::spawn_task(executor& where, task<> work, const char* name) {
  if (!work.valid()) detail::throw_empty_task();
  auto* const spawned = new child(*this, where, std::move(work), name);
  // relaxed: the caller keeps the scope open; the end of the task is ordered by finish_task().
  open_.fetch_add(one_task, std::memory_order_relaxed);
#if GYRE_ASYNC_BACKTRACE
  {
    const std::lock_guard lock(mutex_);
    children_.push_back(*spawned);
  }
#endif
  where.post(spawned->starter());
}

std::vector<async_backtrace> scope::live_tasks() {
  std::vector<async_backtrace> traces;
#if GYRE_ASYNC_BACKTRACE
  const std::lock_guard lock(mutex_);
  for (const child& each : children_) traces.emplace_back(each);
#endif
  return traces;
}

#if GYRE_ASYNC_BACKTRACE
void scope::append_children(std::vector<task_context*>& to) {
  for (child& each : children_) to.push_back(&each);
}
#endif

// A task's end. The scope may be gone when it returns.
std::coroutine_handle<> scope::finish_task(const executor* here) noexcept {
  // release: pairs with the acquire of the last task, or of the join: the errors are seen.
  // acquire: pairs with the release in the join: this sees how to resume the parent.
  if (open_.fetch_sub(one_task, std::memory_order_acq_rel) != one_task) {
    return std::noop_coroutine();
  }
  if (here == home_) return parent_.waiting;
  home_->post(parent_);
  return std::noop_coroutine();
}

void scope::add_error(std::exception_ptr error) noexcept {
  const bool was_stopped = stop_.stop_requested() && detail::is_cancelled(error);
  {
    const std::lock_guard lock(mutex_);
    if (was_stopped) {
      cancelled_ = true;
      return;
    }
    if (first_error_ == nullptr) {
      first_error_ = std::move(error);
    } else if (policy_ == scope_errors::collect) {
      more_errors_.push_back(std::move(error));
    }
  }
  if (policy_ == scope_errors::stop_at_first) stop_.request_stop();
}

std::exception_ptr detail::open_scope::take_error(const task_context& parent) {
  if (first_error_ != nullptr) {
    if (policy_ == scope_errors::stop_at_first) return error_for(parent, std::move(first_error_));
    more_errors_.insert(more_errors_.begin(), std::move(first_error_));
    return std::make_exception_ptr(scope_error(std::move(more_errors_)));
  }
  if (!cancelled_ || !parent.stop.stop_requested()) return nullptr;
  const bool body_counted = parent.cancellations != inherited_.cancellations;  // in this context
  if (!body_counted) count_cancellation(parent);
  return cancellation();
}

}  // namespace gyre
