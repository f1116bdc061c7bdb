// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/fork_join.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/task/detail/resumption.hpp>

#include <algorithm>
#include <new>
#include <type_traits>

namespace gyre::detail {

constinit thread_local child_starts starts_here;

[[gnu::noinline]] void start_nested(std::coroutine_handle<> first, executor& target) noexcept {
  if (starts_here.depth >= fork_join::max_nested_starts && &target != &inline_executor())
      [[unlikely]] {
    if (post_resumption(first, target)) return;
  }
  ++starts_here.depth;
  resume(first);
  --starts_here.depth;
}

void fork_join::append_children(std::vector<task_context*>& contexts) {
  const auto old_size = static_cast<std::ptrdiff_t>(contexts.size());
  // relaxed: called for a deadlock report, when the program has only one thread.
  for (child* kept_child = newest_kept_.load(std::memory_order_relaxed); kept_child != nullptr;
       kept_child = kept_child->next) {
    contexts.push_back(kept_child);
  }
  std::reverse(contexts.begin() + old_size, contexts.end());
}

void fork_join::split(loop& remaining_children, fork_queue& queue,
                      operation::function run) noexcept {
  const std::size_t last = remaining_children.end;
  const std::size_t later_half_size = (last - remaining_children.next) / 2;
  if (later_half_size == 0) return;
  void* memory = nullptr;
  try {
    memory = slab_allocate(sizeof(loop));
  } catch (const std::bad_alloc&) {
    return;
  }
  static_assert(std::is_trivially_destructible_v<loop>);
  loop* const second_half = ::new (memory) loop(run, *this, last - later_half_size, last);
  remaining_children.end = last - later_half_size;
  // relaxed: the count cannot reach zero here, because the end of `remaining_children` is counted
  // later.
  pending_.fetch_add(1, std::memory_order_relaxed);
  if (!queue.push(*second_half)) {
    pending_.fetch_sub(1, std::memory_order_relaxed);
    remaining_children.end = last;
    slab_deallocate(memory, sizeof(loop));
    return;
  }
  // A split-off loop is freed only with the join: otherwise take_back() could mistake a younger
  // loop at the same address for this one.
  second_half->older = split_off_.load(std::memory_order_relaxed);
  while (!split_off_.compare_exchange_weak(second_half->older, second_half,
                                           std::memory_order_relaxed)) {
  }
}

void fork_join::free_shared_memory(const child* first, std::size_t bytes) noexcept {
  static_assert(std::is_trivially_destructible_v<child>);
  // relaxed: ordered by the last decrement of pending_, which acquires.
  for (loop* part = split_off_.load(std::memory_order_relaxed); part != nullptr;) {
    loop* const next_loop = part->older;
    slab_deallocate(part, sizeof(loop));
    part = next_loop;
  }
  for (child* kept_child = newest_kept_.load(std::memory_order_relaxed); kept_child != nullptr;) {
    child* const next_child = kept_child->next;
    if (kept_child != first) slab_deallocate(kept_child, bytes);
    kept_child = next_child;
  }
}

void fork_join::keep_context(kept_contexts& list, child& context) noexcept {
  context.next = std::exchange(list.newest, &context);
  if (list.oldest == nullptr) list.oldest = &context;
}

void fork_join::on_child_failed(const task_end& end) noexcept {
  const task_end* expected_end = nullptr;
  // relaxed: failed() is read after the last decrement of pending_, which orders it.
  if (first_failure_.compare_exchange_strong(expected_end, &end, std::memory_order_relaxed) &&
      stop_) {
    stop_->request_stop();
  }
}

void fork_join::give_up(loop& remaining_children) noexcept {
  remaining_children.next = remaining_children.end;
  // relaxed: start_error_ is read after the last decrement of pending_, which orders it.
  if (has_start_error_.exchange(true, std::memory_order_relaxed)) return;
  start_error_ = std::current_exception();
  if (stop_) stop_->request_stop();
}

bool fork_join::finish_with_others(const kept_contexts& list, std::size_t events) noexcept {
  if (list.newest != nullptr) {
    child* older_contexts = newest_kept_.load(std::memory_order_relaxed);
    do {
      list.oldest->next = older_contexts;
      // relaxed: the list is followed after the last decrement of pending_, which orders it.
    } while (!newest_kept_.compare_exchange_weak(older_contexts, list.newest,
                                                 std::memory_order_relaxed));
  }
  // acquire and release: the decrement that reaches zero synchronises with all others, so that the
  // parent sees the results of all children.
  return pending_.fetch_sub(events, std::memory_order_acq_rel) == events;
}

std::coroutine_handle<> fork_join::end_elsewhere(child& ended_child) noexcept {
  fork_join& join = *ended_child.join;
  ended_child.end->end_without_continuation();
  // The stop source exists until this child is counted below.
  if (ended_child.end->failed()) join.on_child_failed(*ended_child.end);
  executor* const end_executor = ended_child.where;
  // acquire and release: the decrement that reaches zero synchronises with all others, so that the
  // parent sees the results of all children.
  if (join.pending_.fetch_sub(1, std::memory_order_acq_rel) != 1) return nullptr;
  executor* const parent_executor = join.parent_context_->where;
  if (end_executor == parent_executor) return join.parent();
  parent_executor->post(join.all_);
  return nullptr;
}

GYRE_MAKES_TAIL_CALLS void fork_join::after_child(void* frame) {
  child& own_child = stand_in<child>::owner(frame);
  if (starts_here.innermost == &own_child) [[likely]] {
    starts_here.innermost = nullptr;
    return;
  }
  const std::coroutine_handle<> parent = end_elsewhere(own_child);
  if (!parent) return;
  GYRE_TAIL_CALL return continue_with(parent.address());
}

}  // namespace gyre::detail
