// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/join_handle.hpp>

#include <gyre/task/spawn.hpp>

#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::detail {

void throw_empty_join_handle() {
  throw std::logic_error(
      "gyre::join_handle: has no task: default-constructed, moved from, or "
      "detached");
}

void throw_joined_twice() {
  throw std::logic_error(
      "gyre::join_handle: the result has been taken by another join(), or by detach()");
}

joinable_work::joinable_work(executor& target, scope* owner,
                             const joinable_options& options) noexcept
    : shared_work(&target, true),
      owner_(owner),
      parent_(owner != nullptr ? owner->get_token() : options.stop) {
  task_context& own_context = *this;
  if (owner != nullptr) {
    const inplace_stop_token own_stop = stop;
    own_context = scope_access::inherited(*owner);
    stop = own_stop;
  }
  finished = &on_end;
  trace.name.set(options.name);
}

void joinable_work::launch() {
  if (owner_ != nullptr) scope_access::add_task(*owner_, *this, *this);
  start_owned(&discard);
}

void joinable_work::observe_parent() noexcept {
  if (!parent_.stop_possible()) return;
  on_stop_.emplace(parent_, pass_on_stop{this});
  announces_end = true;
}

void joinable_work::detach() noexcept {
  // release: pairs with the acquire in on_end(); makes an earlier claim of the result visible
  // there.
  is_detached_.store(true, std::memory_order_release);
  release();
}

std::coroutine_handle<> joinable_work::on_end(task_context& context) noexcept {
  auto& self = static_cast<joinable_work&>(context);
  if (std::exchange(self.announces_end, false)) {
    self.on_stop_.reset();
    return std::noop_coroutine();
  }
  scope* const owner = self.owner_;
  const executor* const end_executor = self.where;
  // acquire: pairs with the release in detach(). A coroutine that joins receives the error itself.
  if (self.is_detached_.load(std::memory_order_acquire) && !self.has_waiters() &&
      self.claim_result()) {
    self.report_error();
  }
  if (owner == nullptr) {
    const std::coroutine_handle<> coroutine = self.wake_awaiters();
    return coroutine ? coroutine : std::noop_coroutine();
  }
  scope_access::unlist(*owner, self);
  const std::coroutine_handle<> coroutine = self.wake_awaiters();
  // The task's awaiters are woken before the scope's parent; only one coroutine may be resumed on
  // this thread.
  const std::coroutine_handle<> joins_scope =
      scope_access::finish_task(*owner, coroutine ? nullptr : end_executor);
  return coroutine ? coroutine : joins_scope;
}

// Called by an executor that was destroyed before the task started, or is out of memory.
void joinable_work::discard(operation& starter) noexcept {
  auto& self = static_cast<joinable_work&>(starter);
  self.trace.innermost.set(nullptr);
  // Matches no coroutine's executor, so that none resumes within the executor's destructor.
  self.where = nullptr;
  self.fail_unstarted(make_error(std::errc::operation_canceled));
  resume(on_end(self));
}

void joinable_work::report_error() noexcept {
  std::exception_ptr error = take_error();
  if (error == nullptr) return;
  if (owner_ == nullptr) {
    end_detached(error);
    return;
  }
  scope_access::add_error_of(*this, *owner_, std::move(error));
}

}  // namespace gyre::detail
