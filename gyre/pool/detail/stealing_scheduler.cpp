// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/stealing_scheduler.hpp>

#include <gyre/base/detail/system_clocks.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/exec/inbox/inbox.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

namespace gyre::detail {
namespace {

// Once in this number of lookups, a worker that has items takes one from another queue. The
// number is prime, as in Go and Tokio, so that it does not align with a pattern of the program.
constexpr unsigned fair_turn = 61;

// Once in this number of fair turns, the worker runs the oldest item of its own deque, which costs
// a heavy fence.
constexpr unsigned own_fair_turn = 16;

// The maximum number of times that a worker polls for work before it sleeps.
constexpr int max_polls = 128;

// A worker that may poll more often than this, because its polls have succeeded, yields between
// polls to the submitters, which may wait for its processor, as long as that finds work: a yield to
// another program may cost a time slice. With fewer polls it does not yield, because the kernel
// takes long to wake a thread that has just yielded.
constexpr int few_polls = 64;

// The longest search of a worker that yields: another program may keep the processor for a whole
// time slice, in which submitters rely on the search.
constexpr std::chrono::microseconds max_search_duration{100};

struct queued_operation {
  operation* op;
  void operator()() const noexcept { current_batch().add(work_item(*op)); }
};

}  // namespace

stealing_scheduler::stealing_scheduler(const thread_pool_options& options, const life_cycle& state,
                                       const worker_set& workers, std::shared_ptr<admission> slots,
                                       in_place_runner& runner)
    : runner_(runner),
      life_cycle_(state),
      workers_(workers),
      submissions_(std::move(slots)),
      idle_workers_(options.workers),
      lanes_(options.aging) {}

// ---- adding

void stealing_scheduler::enqueue(pool_task& task, task_priority priority) noexcept {
  {
    const std::lock_guard lock(lanes_lock_);
    lanes_.push(task, priority);
    enqueued_items_.fetch_add(1, std::memory_order_relaxed);
    count_lanes();
  }
  idle_workers_.notify();
}

void stealing_scheduler::enqueue(operation& op) noexcept {
  try {
    submissions_.push(queued_operation{&op});
  } catch (...) {
    enqueued_items_.fetch_add(1, std::memory_order_relaxed);
    overflow_.push(op);
  }
  idle_workers_.notify();
}

void stealing_scheduler::enqueue_from_worker(pool_worker& self, pool_task& task) noexcept {
  if (!self.push_to_own_deque(work_item(task))) [[unlikely]]
    enqueue(task, task_priority::normal);
}

// Does not count the item, which was counted when it was enqueued.
void stealing_scheduler::put_back(work_item item) noexcept {
  if (!item.is_task()) {
    overflow_.push(item.op());
    return;
  }
  const std::lock_guard lock(lanes_lock_);
  lanes_.put_back(item.task());
  count_lanes();
}

// Publishes the sizes of the lanes. Requires lanes_lock_.
void stealing_scheduler::count_lanes() noexcept {
  // release: pairs with the acquire in has_inbound_items().
  lanes_waiting_.store(lanes_.size(), std::memory_order_release);
  // relaxed: the value is a hint for workers that are awake.
  high_waiting_.store(lanes_.size(task_priority::high), std::memory_order_relaxed);
}

std::uint64_t stealing_scheduler::enqueued() const noexcept {
  return submissions_.pushed() + enqueued_items_.load(std::memory_order_acquire);
}

// ---- taking

template <class Take>
pool_task* stealing_scheduler::take_lane(Take&& take) noexcept {
  // relaxed: the value is a hint; a worker calls has_work() before it sleeps.
  if (lanes_waiting_.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard lock(lanes_lock_);
  pool_task* const task = take(lanes_);
  count_lanes();
  return task;
}

work_item stealing_scheduler::next(pool_worker& self) noexcept {
  if (++self.lookups % fair_turn == 0) [[unlikely]] {
    if (const work_item item = take_fairly(self)) return item;
  }
  // relaxed: the value is a hint; a worker calls has_work() before it sleeps.
  if (high_waiting_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    if (pool_task* const prioritized_task = take_prioritized()) return work_item(*prioritized_task);
  }
  if (const work_item own_item = self.deque.pop()) return own_item;
  self.has_own_tasks = false;
  if (self.thefts.has_stolen()) [[unlikely]]
    self.thefts.finish_tasks(monotonic_now());
  if (const work_item item = take_submitted(self, drained_batch::max_items)) return item;
  if (const work_item item = take_overflow(self)) return item;
  if (pool_task* const task = take_prioritized()) return work_item(*task);
  return steal_if_it_pays(self);
}

work_item stealing_scheduler::steal_if_it_pays(pool_worker& self) noexcept {
  if (self.thefts.must_rest() || !others_have_work(self)) return {};
  self.thefts.start(monotonic_now());
  const work_item item = steal(self);
  self.thefts.end(monotonic_now(), static_cast<bool>(item));
  return item;
}

work_item stealing_scheduler::take_fairly(pool_worker& self) noexcept {
  const auto take_passed_over = [](priority_lanes& lanes) {
    pool_task* const task = lanes.take_overdue();
    return task != nullptr ? task : lanes.take(task_priority::normal);
  };
  if (pool_task* const task = take_lane(take_passed_over)) return work_item(*task);
  if (const work_item item = take_overflow(self)) return item;
  // The deque has the oldest submissions, unless the worker fills it with its own tasks.
  if (!self.has_own_tasks) {
    if (const work_item own_item = self.deque.pop()) return own_item;
  } else if (self.lookups % (fair_turn * own_fair_turn) == 0) {
    if (const work_item item = steal(self)) return item;
    if (const work_item oldest = self.deque.steal_oldest()) return oldest;
  }
  return take_submitted(self, 1);
}

// Returns the first item. Pushes the others to the deque in reverse, so that the oldest is popped
// first.
work_item stealing_scheduler::take_submitted(pool_worker& self, std::size_t max_items) noexcept {
  // The batch is a local object, because draining may run a task for which there is no memory, and
  // that task may wait and drain again.
  drained_batch batch(runner_);
  inbox::batch budget(max_items);
  const bool more_waits = submissions_.run_some(budget);
  const std::size_t count = batch.size();
  if (count == 0) return {};
  for (std::size_t index = count - 1; index > 0; --index) push_to_deque(self, batch[index]);
  if (count > 1 || more_waits) idle_workers_.notify();
  return batch[0];
}

work_item stealing_scheduler::take_overflow(pool_worker& self) noexcept {
  if (overflow_.empty()) [[likely]]
    return {};
  auto operations = overflow_.pop_all();
  operation* const first = operations.pop_front();
  if (first == nullptr) return {};
  intrusive_queue<operation> newest_first;  // in reverse, so that the oldest is popped first
  while (operation* const op = operations.pop_front()) newest_first.push_front(*op);
  while (operation* const op = newest_first.pop_front()) push_to_deque(self, work_item(*op));
  idle_workers_.notify();
  return work_item(*first);
}

void stealing_scheduler::push_to_deque(pool_worker& self, work_item item) noexcept {
  if (!self.deque.push(item)) put_back(item);
}

pool_task* stealing_scheduler::take_prioritized() noexcept {
  return take_lane([](priority_lanes& lanes) { return lanes.take(); });
}

work_item stealing_scheduler::steal(pool_worker& self) noexcept {
  const std::size_t count = workers_.size();
  // Begins with the worker of the next index, so that thieves spread over different victims.
  for (std::size_t step = 1; step < count; ++step) {
    pool_worker& victim = workers_[(self.index + step) % count];
    const work_item oldest = victim.deque.steal_into(self.deque);
    if (!oldest) continue;
    self.steals.add(1);
    trace::detail::record_moment(trace::detail::event_kind::steal, 0, victim.index);
    if (self.deque.size() > 0) idle_workers_.notify();
    return oldest;
  }
  return {};
}

// Takes one item from the submissions or a deque.
work_item stealing_scheduler::take_from_queues() noexcept {
  drained_batch batch(runner_);
  inbox::batch single_task(1);
  static_cast<void>(submissions_.run_some(single_task));
  if (batch.size() > 0) return batch[0];
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    if (const work_item oldest = workers_[index].deque.steal_oldest()) return oldest;
  }
  return {};
}

pool_task* stealing_scheduler::take_least_urgent() noexcept {
  intrusive_queue<operation> operations;
  pool_task* task = take_lane([](priority_lanes& lanes) { return lanes.take(task_priority::low); });
  while (task == nullptr) {
    const work_item item = take_from_queues();
    if (!item) {
      task = take_lane([](priority_lanes& lanes) { return lanes.take_least_urgent(); });
      break;
    }
    if (item.is_task()) {
      task = &item.task();
    } else {
      operations.push_back(item.op());
    }
  }
  if (!operations.empty()) {
    while (operation* const op = operations.pop_front()) overflow_.push(*op);
    idle_workers_.notify();
  }
  return task;
}

work_item stealing_scheduler::take_leftover() noexcept {
  if (pool_task* const task = take_prioritized()) return work_item(*task);
  auto operations = overflow_.pop_all();
  if (operation* const first = operations.pop_front()) {
    while (operation* const op = operations.pop_front()) overflow_.push(*op);
    return work_item(*first);
  }
  return take_from_queues();
}

// ---- idle workers

void stealing_scheduler::stop_searching(pool_worker& self) noexcept {
  idle_workers_.end_search(self.parker, [&] { return has_waiting_items(self); });
}

void stealing_scheduler::release_queue(pool_worker& self) noexcept {
  while (const work_item item = self.deque.pop()) put_back(item);
  idle_workers_.end_search(self.parker);
}

void stealing_scheduler::put_back(pool_worker& self, work_item item) noexcept {
  // The deque does not order by priority.
  if (item.is_task() && item.task().priority != task_priority::normal) {
    put_back(item);
  } else {
    push_to_deque(self, item);
  }
}

void stealing_scheduler::wait_for_work(pool_worker& self) noexcept {
  if (self.thefts.must_rest() && others_have_work(self)) {
    idle_workers_.end_search(self.parker, [&] { return has_inbound_items(); });
    sleep_for(self.thefts.begin_rest());
    return;
  }
  if (idle_workers_.start_searching(self.parker) && search(self)) return;
  self.parks.add(1);
  static_cast<void>(idle_workers_.park(self.parker, [&] { return has_work(self); }));
}

// Polls for work repeatedly, and returns whether there is some.
bool stealing_scheduler::search(pool_worker& self) noexcept {
  const int polls = std::min(self.spin.looks(), max_polls);
  const bool must_yield = polls > few_polls && self.yields.claim_attempt();
  const steady_time deadline =
      must_yield ? later(monotonic_now(), max_search_duration) : steady_time{};
  for (int poll = 1; poll <= polls; ++poll) {
    if (has_work(self)) {
      self.spin.record_success(poll);
      if (must_yield) self.yields.succeed();
      return true;
    }
    if (!must_yield) {
      cpu_relax();
    } else {
      thread_yield();
      if (monotonic_now() >= deadline) break;
    }
  }
  self.spin.record_failure();
  if (must_yield) self.yields.fail();
  return false;
}

bool stealing_scheduler::has_work(const pool_worker& self) noexcept {
  return life_cycle_.concerns_sleepers() || workers_.is_surplus(self) || has_waiting_items(self);
}

bool stealing_scheduler::has_waiting_items(const pool_worker& self) noexcept {
  return has_inbound_items() || self.deque.size() > 0 || others_have_work(self);
}

bool stealing_scheduler::has_inbound_items() noexcept {
  // acquire: pairs with the release in count_lanes().
  return lanes_waiting_.load(std::memory_order_acquire) != 0 || !overflow_.empty() ||
         submissions_.ready();
}

bool stealing_scheduler::others_have_work(const pool_worker& self) const noexcept {
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    if (index != self.index && workers_[index].deque.size() > 0) return true;
  }
  return false;
}

}  // namespace gyre::detail
