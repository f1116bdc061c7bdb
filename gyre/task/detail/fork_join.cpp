// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/fork_join.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/task/executor.hpp>

#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

namespace gyre::detail {
namespace {

// One start within another takes some 200 bytes to 2 KiB of stack, by compiler and build.
constexpr unsigned most_nested_starts = 64;

// The child that this thread starts now; for functions that no coroutine inlines.
struct starts {
  const task_context* innermost = nullptr;  // the child's; null once that has finished
  unsigned nested = 0;                      // one within the other
};
constinit thread_local starts here;

}  // namespace

[[gnu::noinline]] void start_nested(std::coroutine_handle<> first, executor& where) noexcept {
  if (here.nested >= most_nested_starts && &where != &inline_executor()) [[unlikely]] {
    if (post_resumption(first, where)) return;
  }
  ++here.nested;
  resume(first);
  --here.nested;
}

fork_join::~fork_join() {
  // relaxed: the count has ordered it.
  for (child* each = kept_.load(std::memory_order_relaxed); each != nullptr;) {
    child* const next = each->next;
    if (each != &first_) slab_deallocate(each, sizeof(child));
    each = next;
  }
}

#if GYRE_ASYNC_BACKTRACE
void fork_join::append_children(std::vector<task_context*>& to) {
  const auto before = static_cast<std::ptrdiff_t>(to.size());
  // relaxed: the program has one thread.
  for (child* each = kept_.load(std::memory_order_relaxed); each != nullptr; each = each->next) {
    to.push_back(each);
  }
  std::reverse(to.begin() + before, to.end());
}
#endif

task_context fork_join::inherited() const noexcept {
  task_context context = inherited_;
  if (stop_) context.stop = stop_->get_token();
  context.finished = &child_finished;
  return context;
}

void fork_join::keep(child& newest, child& oldest) noexcept {
  child* others = kept_.load(std::memory_order_relaxed);
  do {
    oldest.next = others;
    // relaxed: followed when the count has ordered it.
  } while (!kept_.compare_exchange_weak(others, &newest, std::memory_order_relaxed));
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
  if (here.innermost == &self) {
    here.innermost = nullptr;
    return std::noop_coroutine();
  }
  fork_join& join = *self.join;
  // The stop source lives until the count.
  if (self.end->failed()) join.child_failed(*self.end);
  executor* const there = self.where;
  // release: the last to count, who acquires for the parent, sees our result.
  if (join.pending_.fetch_sub(1, std::memory_order_acq_rel) != 1) return std::noop_coroutine();
  executor* const home = join.inherited_.where;
  if (there == home) return join.parent();
  home->post(join.resumption_);
  return std::noop_coroutine();
}

fork_join::child& fork_join::starter::prepare(const task_end& end) {
  if (!end.not_started()) throw_empty_task();
  static_assert(std::is_trivially_destructible_v<child>);
  void* const memory = spare_ != nullptr ? spare_ : slab_allocate(sizeof(child));
  spare_ = ::new (memory) child{join_.inherited(), &join_, &end, nullptr};
  return *spare_;
}

bool fork_join::starter::offer(operation& rest) noexcept {
  forks_ = forks_ && join_.inherited_.where->offer(rest);
  return forks_;
}

fork_join::starter::entered fork_join::starter::enter(const task_context& context) noexcept {
  return {std::exchange(here.innermost, &context), here.nested++ >= most_nested_starts};
}

bool fork_join::starter::leave(const task_context* outer) noexcept {
  --here.nested;
  return std::exchange(here.innermost, outer) == nullptr;
}

void fork_join::starter::keep() noexcept {
  child* const kept = std::exchange(spare_, nullptr);
  kept->next = newest_;
  newest_ = kept;
  if (oldest_ == nullptr) oldest_ = kept;
}

void fork_join::starter::give_up(std::size_t children) noexcept {
  events_ += 2 * children;
  join_.child_failed_to_start();
}

bool fork_join::starter::finish(std::size_t children) noexcept {
  if (spare_ != nullptr && spare_ != &join_.first_) slab_deallocate(spare_, sizeof(child));
  if (has_loop_) ++events_;
  if (events_ == all_events(children)) return true;  // no other thread had a part in it
  if (newest_ != nullptr) join_.keep(*newest_, *oldest_);
  // acquire: the last to count sees the others' results, for the parent; release: and they ours.
  return join_.pending_.fetch_sub(events_, std::memory_order_acq_rel) == events_;
}

}  // namespace gyre::detail
