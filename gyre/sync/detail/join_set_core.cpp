// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/detail/join_set_core.hpp>

#include <mutex>

namespace gyre::detail {

join_set_task::join_set_task(join_set_core& set, executor& target, function run,
                             const char* description) noexcept
    : task_context(scope_access::inherited(set.owner())), operation(run), set_(set) {
  where = &target;
  stop = set.get_token();
  finished = &on_end;
  trace.name.set(description);
}

void join_set_task::start(std::unique_ptr<join_set_task> new_task) {
  join_set_core& set = new_task->set_;
  scope_access::add_task(set.owner(), *new_task, *new_task);
  set.acquire();
  set.add_one();
  executor& target = *new_task->where;
  target.post(*new_task.release());
}

std::coroutine_handle<> join_set_task::on_end(task_context& context) noexcept {
  auto& self = static_cast<join_set_task&>(context);
  join_set_core& set = self.set_;
  scope& owner = set.owner();
  const executor* const own_executor = self.where;
  scope_access::unlist(owner, self);
  if (!set.push(self)) {  // after a push, the set may have destroyed `self`
    if (std::exception_ptr error = self.take_error()) {
      scope_access::add_error_of(self, owner, std::move(error));
    }
    delete &self;
  }
  // The set follows the scope's stop token, so the set is released before finish_task(), after
  // which the scope may end.
  set.release();
  return scope_access::finish_task(owner, own_executor);
}

bool join_set_core::push(join_set_task& task) noexcept {
  {
    const std::lock_guard lock(lock_);
    if (is_closed_) return false;
    queue_.push_back(task);
  }
  ended_count_.release();
  return true;
}

std::unique_ptr<join_set_task> join_set_core::pop() noexcept {
  const std::lock_guard lock(lock_);
  return std::unique_ptr<join_set_task>(static_cast<join_set_task*>(queue_.pop_front()));
}

void join_set_core::close() noexcept {
  intrusive_queue<operation> operations;
  {
    const std::lock_guard lock(lock_);
    is_closed_ = true;
    operations.splice_back(queue_);
  }
  while (operation* const op = operations.pop_front()) delete static_cast<join_set_task*>(op);
}

}  // namespace gyre::detail
