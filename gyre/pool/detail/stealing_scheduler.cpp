// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/stealing_pool.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

#include <gyre/exec/inbox/inbox.hpp>

namespace gyre::detail {
namespace {

// How often a worker looks at others' work though it has its own. Prime, as Go's and Tokio's, so
// that it falls into step with no pattern of the program.
constexpr unsigned fairness = 61;

// And how many of those times it runs the oldest of its own, which costs a heavy fence.
constexpr unsigned own_fairness = 16;

// Looks for work before a worker sleeps. One whose looks have paid so far, so that it may take more
// than a few, gives way between them to the submitters, who may wait for its processor; otherwise
// it does not, since the kernel wakes late who has just given way.
constexpr int most_looks = 128;
constexpr int few_looks = 64;

}  // namespace

stealing_pool::stealing_pool(thread_pool_options&& options)
    : pool_core(std::move(options)),
      queue_(places_),
      idle_(options_.workers),
      lanes_(options_.aging) {
  submissions_ = &queue_;
  idle_workers_ = &idle_;
}

stealing_pool::~stealing_pool() = default;

void stealing_pool::work(pool_worker& self) noexcept { run_worker(*this, self); }

// ---- adding

void stealing_pool::enqueue(pool_task& task, task_priority priority) noexcept {
  {
    const std::lock_guard lock(lanes_lock_);
    lanes_.push(task, priority);
    enqueued_.fetch_add(1, std::memory_order_relaxed);
    count_lanes();
  }
  idle_.notify();
}

void stealing_pool::enqueue(operation& op) noexcept {
  try {
    queue_.push(handed_over_operation{&op});
  } catch (...) {
    enqueued_.fetch_add(1, std::memory_order_relaxed);
    left_over_.push(op);
  }
  idle_.notify();
}

void stealing_pool::enqueue_own(pool_worker& self, pool_task& task) noexcept {
  // Counted first: a thief may have run it before push() returns.
  self.submitted.add(1);
  if (self.deque.push(work_item(task))) [[likely]] {
    self.feeds_itself = true;
    idle_.notify();
  } else {
    enqueue(task, task_priority::normal);
    self.submitted.set(self.submitted.get() - 1);
  }
}

bool stealing_pool::offer_own(pool_worker& self, operation& op) noexcept {
  self.submitted.add(1);  // as in enqueue_own()
  if (!self.deque.push(work_item(op))) {
    self.submitted.set(self.submitted.get() - 1);
    return false;
  }
  self.feeds_itself = true;
  idle_.notify();
  return true;
}

// To where workers look; not counted again.
void stealing_pool::put_back(work_item item) noexcept {
  if (!item.is_task()) {
    left_over_.push(item.op());
    return;
  }
  const std::lock_guard lock(lanes_lock_);
  lanes_.put_back(item.task());
  count_lanes();
}

// Under the lock.
void stealing_pool::count_lanes() noexcept {
  // release: pairs with the acquire in has_work().
  lanes_waiting_.store(lanes_.size(), std::memory_order_release);
  // relaxed: a hint for workers that are awake.
  high_waiting_.store(lanes_.size(task_priority::high), std::memory_order_relaxed);
}

std::uint64_t stealing_pool::enqueued() const noexcept {
  return queue_.pushed() + enqueued_.load(std::memory_order_acquire);
}

// ---- taking

template <class Take>
pool_task* stealing_pool::take_lane(Take&& take) noexcept {
  // relaxed: a hint; who sleeps asks has_work().
  if (lanes_waiting_.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard lock(lanes_lock_);
  pool_task* const taken = take(lanes_);
  count_lanes();
  return taken;
}

work_item stealing_pool::next(pool_worker& self) noexcept {
  if (++self.turn % fairness == 0) [[unlikely]] {
    if (const work_item item = take_fairly(self)) return item;
  }
  // relaxed: a hint; who sleeps asks has_work().
  if (high_waiting_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    if (pool_task* const urgent = take_prioritized()) return work_item(*urgent);
  }
  if (const work_item own = self.deque.pop()) return own;
  self.feeds_itself = false;
  return find(self);
}

work_item stealing_pool::find(pool_worker& self) noexcept {
  if (const work_item item = take_submitted(self, taken_items::most)) return item;
  if (const work_item item = take_left_over(self)) return item;
  if (pool_task* const task = take_prioritized()) return work_item(*task);
  return steal(self);
}

work_item stealing_pool::take_fairly(pool_worker& self) noexcept {
  const auto take_passed_over = [](priority_lanes& lanes) {
    pool_task* const overdue = lanes.take_overdue();
    return overdue != nullptr ? overdue : lanes.take(task_priority::normal);
  };
  if (pool_task* const task = take_lane(take_passed_over)) return work_item(*task);
  if (const work_item item = take_left_over(self)) return item;
  // What was submitted before others is in the deque, unless the worker lives on its own tasks.
  if (!self.feeds_itself) {
    if (const work_item own = self.deque.pop()) return own;
  } else if (self.turn % (fairness * own_fairness) == 0) {
    if (const work_item others = steal(self)) return others;
    if (const work_item oldest = self.deque.steal_oldest()) return oldest;
  }
  return take_submitted(self, 1);
}

// The first is returned, the others go to the deque: the oldest is popped first.
work_item stealing_pool::take_submitted(pool_worker& self, std::size_t most) noexcept {
  taken_items taken(*this);  // not the worker's: a task that finds no memory is run meanwhile
  bool more_waits = false;
  {
    const taking_scope taking(taken);
    inbox::batch some(most);
    more_waits = queue_.run_some(some);
  }
  const std::size_t count = taken.count();
  if (count == 0) return {};
  for (std::size_t index = count - 1; index > 0; --index) keep(self, taken[index]);
  if (count > 1 || more_waits) idle_.notify();
  return taken[0];
}

work_item stealing_pool::take_left_over(pool_worker& self) noexcept {
  if (left_over_.empty()) [[likely]]
    return {};
  auto all = left_over_.pop_all();
  operation* const first = all.pop_front();
  if (first == nullptr) return {};
  intrusive_queue<operation> newest_first;  // so that the oldest is popped first
  while (operation* const each = all.pop_front()) newest_first.push_front(*each);
  while (operation* const each = newest_first.pop_front()) keep(self, work_item(*each));
  idle_.notify();
  return work_item(*first);
}

void stealing_pool::keep(pool_worker& self, work_item item) noexcept {
  if (!self.deque.push(item)) put_back(item);
}

pool_task* stealing_pool::take_prioritized() noexcept {
  return take_lane([](priority_lanes& lanes) { return lanes.take(); });
}

work_item stealing_pool::steal(pool_worker& self) noexcept {
  const std::size_t all = slots();
  // From the next one on: thieves then spread over their victims.
  for (std::size_t step = 1; step < all; ++step) {
    pool_worker& victim = slot((self.index + step) % all);
    const work_item oldest = victim.deque.steal_into(self.deque);
    if (!oldest) continue;
    self.steals.add(1);
    if (self.deque.size() > 0) idle_.notify();
    return oldest;
  }
  return {};
}

// Any thread: one item from the submissions or a deque.
work_item stealing_pool::take_from_queues() noexcept {
  taken_items taken(*this);
  {
    const taking_scope taking(taken);
    inbox::batch one(1);
    static_cast<void>(queue_.run_some(one));
  }
  if (taken.count() > 0) return taken[0];
  for (std::size_t index = 0; index < slots(); ++index) {
    if (const work_item oldest = slot(index).deque.steal_oldest()) return oldest;
  }
  return {};
}

pool_task* stealing_pool::take_waiting() noexcept {
  intrusive_queue<operation> operations;
  pool_task* found =
      take_lane([](priority_lanes& lanes) { return lanes.take(task_priority::low); });
  while (found == nullptr) {
    const work_item item = take_from_queues();
    if (!item) {
      found = take_lane([](priority_lanes& lanes) { return lanes.take_least(); });
      break;
    }
    if (item.is_task()) {
      found = &item.task();
    } else {
      operations.push_back(item.op());
    }
  }
  if (!operations.empty()) {
    while (operation* const each = operations.pop_front()) left_over_.push(*each);
    idle_.notify();
  }
  return found;
}

work_item stealing_pool::take_left() noexcept {
  if (pool_task* const task = take_prioritized()) return work_item(*task);
  auto operations = left_over_.pop_all();
  if (operation* const first = operations.pop_front()) {
    while (operation* const each = operations.pop_front()) left_over_.push(*each);
    return work_item(*first);
  }
  return take_from_queues();
}

// ---- resting

void stealing_pool::found(pool_worker& self) noexcept {
  if (self.bed.searching()) [[unlikely]]
    idle_.found_work(self.bed, [&] { return work_waits(); });
}

void stealing_pool::leave_queues(pool_worker& self) noexcept {
  while (const work_item item = self.deque.pop()) put_back(item);
  idle_.found_work(self.bed);
}

void stealing_pool::return_taken(pool_worker& self, work_item item) noexcept {
  // The deque knows no priorities.
  if (item.is_task() && item.task().priority != task_priority::normal) {
    put_back(item);
  } else {
    keep(self, item);
  }
}

void stealing_pool::rest(pool_worker& self) noexcept {
  if (idle_.start_searching(self.bed)) {
    const int looks = std::min(self.spin.looks(), most_looks);
    const bool gives_way = looks > few_looks;
    for (int look = 1; look <= looks; ++look) {
      if (has_work(self)) {
        self.spin.paid(look);
        return;
      }
      gives_way ? thread_yield() : cpu_relax();
    }
    self.spin.wasted();
  }
  self.parks.add(1);
  static_cast<void>(idle_.park(self.bed, [&] { return has_work(self); }));
}

bool stealing_pool::has_work(const pool_worker& self) noexcept {
  return must_rise(self) || work_waits();
}

bool stealing_pool::work_waits() noexcept {
  // acquire: pairs with the release in enqueue().
  if (lanes_waiting_.load(std::memory_order_acquire) != 0 || !left_over_.empty()) return true;
  for (std::size_t index = 0; index < slots(); ++index) {
    if (slot(index).deque.size() > 0) return true;
  }
  return queue_.ready();
}

}  // namespace gyre::detail
