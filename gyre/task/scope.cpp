// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/scope.hpp>

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/slab.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>

namespace gyre {
namespace {

[[noreturn, gnu::cold]] void throw_ended() {
  throw std::logic_error(
      "gyre::async_scope: a task was spawned after join() and the end of the last task; spawn it "
      "before, or into another scope");
}

}  // namespace

const char* scope_error::what() const noexcept { return "tasks of a gyre::scope failed"; }

// A task from spawn() to its end, which backtraces show before it begins.
class scope::traced_child final : public detail::slab_object,
                                  task_context,
                                  detail::scope_entry,
                                  operation {
 public:
  static void post(scope& owner, executor& target, task<>&& work, const char* task_name) {
    auto posted = std::make_unique<traced_child>(owner, target, std::move(work));
    posted->trace.name.set(task_name);
    // Prepares the task, so that backtraces show it before it begins.
    detail::task_access::state(posted->work_).prepare(*posted);
    owner.add_task(*posted, *posted);
    target.post(*posted.release());
  }

  traced_child(scope& owner, executor& target, task<>&& work) noexcept
      : task_context(owner.inherited_),
        operation([](operation& self) {
          auto& posted = static_cast<traced_child&>(self);
          detail::task_access::state(posted.work_).start(posted);
        }),
        scope_(owner),
        work_(std::move(work)) {
    where = &target;
    finished = &on_end;
  }

 private:
  static std::coroutine_handle<> on_end(task_context& context) noexcept {
    auto& self = static_cast<traced_child&>(context);
    scope& owner = self.scope_;
    const executor* const end_executor = self.where;
    if (std::exception_ptr error = detail::task_access::state(self.work_).take_error()) {
      owner.add_error(std::move(error));
    }
    owner.unlist(self);
    delete &self;
    return owner.finish_task(end_executor);
  }

  scope& scope_;
  task<> work_;
};

// A task that has started. Destroys itself and frees its memory when the task ends; the scope's
// error_collector_ has then got the task's error.
class scope::started_child final : task_context {
 public:
  started_child(scope& owner, executor& target) noexcept
      : task_context(owner.inherited_), scope_(owner) {
    where = &target;
    finished = &on_end;
  }

  void start(task<> work) {
    detail::task_access::state(work).start_detached(*this, scope_.error_collector_);
  }

 private:
  static std::coroutine_handle<> on_end(task_context& context) noexcept;

  scope& scope_;
};

// A task posted to its executor and not yet started. Its block is large enough for the
// started_child that replaces it there.
class scope::posted_child final : operation {
 public:
  static constexpr std::size_t bytes() noexcept {
    return std::max(sizeof(posted_child), sizeof(started_child));
  }
  static void post(scope& owner, executor& target, task<>&& work, const char*) {
    void* const memory = slab_allocate(bytes());
    detail::scope_entry unlisted;
    try {
      owner.add_task(unlisted, owner.inherited_);
    } catch (...) {
      slab_deallocate(memory, bytes());
      throw;
    }
    target.post(*new (memory) posted_child(owner, target, std::move(work)));
  }

 private:
  posted_child(scope& owner, executor& target, task<>&& work) noexcept
      : operation(&start), scope_(owner), where_(target), work_(std::move(work)) {}

  static void start(operation& self) {
    auto& posted = static_cast<posted_child&>(self);
    scope& owner = posted.scope_;
    executor& target = posted.where_;
    task<> work = std::move(posted.work_);
    posted.~posted_child();
    (new (static_cast<void*>(&posted)) started_child(owner, target))->start(std::move(work));
  }

  scope& scope_;
  executor& where_;
  task<> work_;
};

std::coroutine_handle<> scope::started_child::on_end(task_context& context) noexcept {
  static_assert(detail::records_backtraces || posted_child::bytes() == 48, "spawn() says so");
  auto* const self = static_cast<started_child*>(&context);
  scope& owner = self->scope_;
  const executor* const end_executor = self->where;
  self->~started_child();
  slab_deallocate(self, posted_child::bytes());
  return owner.finish_task(end_executor);
}

scope::scope(inplace_stop_token parent, scope_errors policy, end_function* end,
             bool outlives_end) noexcept
    : stop_(parent), end_(end), policy_(policy), outlives_end_(outlives_end) {}

void scope::abort_if_running(const char* name, const char* advice) const noexcept {
  // acquire: pairs with the release in finish_task(); makes the errors visible to the destructor,
  // which destroys them next.
  const std::size_t running = open_.load(std::memory_order_acquire) / one_task;
  if (running == 0) return;
  static_cast<void>(std::fprintf(
      stderr, "gyre: %s was destroyed while tasks of the scope were running: %zu; %s\n", name,
      running, advice));
  std::abort();
}

void scope::add_task(detail::scope_entry& entry, task_context& context) {
  // relaxed: a task's end is ordered by finish_task(), and a scope that has ended stays so.
  if (!outlives_end_) {
    // The count is not zero, because the caller keeps the scope open.
    open_.fetch_add(one_task, std::memory_order_relaxed);
  } else {
    std::size_t expected = open_.load(std::memory_order_relaxed);
    do {
      if (expected == 0) throw_ended();
    } while (!open_.compare_exchange_weak(expected, expected + one_task, std::memory_order_relaxed,
                                          std::memory_order_relaxed));
  }
  children_.add(entry, context, mutex_);
}

void scope::unlist(detail::scope_entry& entry) noexcept { children_.remove(entry, mutex_); }

void scope::spawn_task(executor& target, task<> work, const char* name) {
  if (!work.valid()) detail::throw_empty_task();
  starter::post(*this, target, std::move(work), name);
}

std::vector<async_backtrace> scope::live_tasks() {
  std::vector<async_backtrace> traces;
  if constexpr (detail::records_backtraces) {
    const std::lock_guard lock(mutex_);
    children_.for_each([&](const task_context& each) { traces.emplace_back(each); });
  }
  return traces;
}

void scope::append_children(std::vector<task_context*>& contexts) {
  children_.for_each([&](task_context& each) { contexts.push_back(&each); });
}

// Called when a task has ended. The scope may have been destroyed when this function returns.
std::coroutine_handle<> scope::finish_task(const executor* end_executor) noexcept {
  // acquire and release: the last task's decrement pairs with those of the other tasks, so that
  // their errors are visible at the end; and with the release in close(), which makes the parent's
  // handle and executor visible.
  if (open_.fetch_sub(one_task, std::memory_order_acq_rel) != one_task) {
    return std::noop_coroutine();
  }
  return end_(*this, end_executor);
}

std::coroutine_handle<> detail::open_scope::resume_parent(scope& self,
                                                          const executor* end_executor) noexcept {
  auto& ended = static_cast<open_scope&>(self);
  if (end_executor == ended.parent_executor_) return ended.parent_.waiting;
  ended.parent_executor_->post(ended.parent_);
  return std::noop_coroutine();
}

void scope::add_error(std::exception_ptr error) noexcept {
  const bool was_stopped = stop_.stop_requested() && detail::is_cancelled(error);
  {
    const std::lock_guard lock(mutex_);
    if (was_stopped) {
      was_cancelled_ = true;
      return;
    }
    if (first_error_ == nullptr) {
      first_error_ = std::move(error);
    } else if (policy_ == scope_errors::collect) {
      try {
        more_errors_.push_back(std::move(error));
      } catch (const std::bad_alloc&) {  // NOLINT: without memory, the first ones are kept
      }
    }
  }
  if (policy_ == scope_errors::stop_at_first) stop_.request_stop();
}

std::exception_ptr scope::final_error(const task_context& joiner, bool was_counted) const {
  if (first_error_ != nullptr) {
    if (policy_ == scope_errors::stop_at_first)
      return detail::translate_child_error(joiner, first_error_);
    std::vector<std::exception_ptr> errors;
    errors.reserve(1 + more_errors_.size());
    errors.push_back(first_error_);
    errors.insert(errors.end(), more_errors_.begin(), more_errors_.end());
    return std::make_exception_ptr(scope_error(std::move(errors)));
  }
  if (!was_cancelled_ || !joiner.stop.stop_requested()) return nullptr;
  if (!was_counted) detail::count_cancellation(joiner);
  return detail::cancellation();
}

}  // namespace gyre
