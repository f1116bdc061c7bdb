// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/event_loop.hpp>

#include <gyre/exec/detail/run_claim.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/function_sequence.hpp>

#include <algorithm>
#include <cassert>
#include <stdexcept>

namespace gyre {
namespace {

// Timers that fire at least this late are recorded.
constexpr std::chrono::milliseconds notable_lateness{1};

}  // namespace

// Makes the calling thread the one that runs the loop for the duration of a scope.
class event_loop::run_scope {
 public:
  explicit run_scope(event_loop& loop)
      : loop_(loop),
        claim_(loop.run_,
               "gyre: a loop was run while another thread runs it; post tasks to it instead") {
    if (loop.in_loop_thread()) {
      throw std::logic_error("gyre: a loop was run from one of its own tasks");
    }
    loop_.outer_ = current_loop_;
    current_loop_ = &loop_;
    loop_.recorder_ = trace::detail::find_recorder();
  }
  run_scope& operator=(run_scope&&) = delete;
  ~run_scope() {
    loop_.begin_time_limits();  // a stop or an exception may have kept limits from the turn
    current_loop_ = loop_.outer_;
    loop_.recorder_ = nullptr;
  }

 private:
  event_loop& loop_;
  detail::run_claim claim_;
};

// The timer of a callable of post_at(). It deletes itself when it runs.
class event_loop::delayed_task : public timer_operation, public intrusive_list_node {
 public:
  explicit delayed_task(move_only_function<void()> task) noexcept
      : timer_operation(&run), task_(std::move(task)) {}

 private:
  static void run(timer_operation& self) {
    const std::unique_ptr<delayed_task> owner(static_cast<delayed_task*>(&self));
    owner->intrusive_list_node::unlink();
    owner->task_();
  }

  move_only_function<void()> task_;
};

event_loop::event_loop(loop_options options, std::unique_ptr<gyre::poller> poller)
    : is_limited_(options.inbox_limit != loop_options::unlimited),
      gate_(options.wakeup == wakeup::per_task),
      options_(detail::validate(std::move(options))),
      poller_(std::move(poller)),
      timers_(poller_->now()),
      io_slice_(options_.io_time),
      batch_size_(options_.batch),
      wait_strategy_(options_.busy_poll) {
  poller_->set_slice(&io_slice_);
}

event_loop::~event_loop() {
  assert(!in_loop_thread() && "loop destroyed from its own task");
  run_last_releases();  // destroying callables of the inbox may have posted releases
}

void event_loop::run() {
  const run_scope scope(*this);
  struct leave_at_exit {
    gyre::poller& poller;
    ~leave_at_exit() { poller.leave(); }
  } const at_exit{*poller_};
  while (!stopped()) turn(steady_time::max());
}

bool event_loop::run_once() {
  const run_scope scope(*this);
  while (!stopped()) {
    if (turn(steady_time::max()) > 0) return true;
  }
  return false;
}

bool event_loop::poll() {
  const run_scope scope(*this);
  return !stopped() && turn(steady_time::min()) > 0;
}

void event_loop::run_until(time_point deadline) {
  const run_scope scope(*this);
  while (!stopped() && now() < deadline) turn(deadline);
}

void event_loop::stop() noexcept {
  // release: pairs with the acquire in stopped().
  is_stopped_.store(true, std::memory_order_release);
  if (in_loop_thread()) batch_.end();
  // The wake-up is needed on the loop's thread, too: a signal handler may call stop() while the
  // loop is about to sleep. It must not record events, so this calls signal_poller() directly.
  if (!gate_.is_busy() && claim_wake_up()) signal_poller();
}

// A turn has four phases. Tasks come first, so that tasks posted before run() run before the loop
// first polls.
//   1. Tasks: a batch of the inbox. Then the time limits begin that were started by this batch, or
//      by phases 3 and 4 of the turn before.
//   2. Events: waits for work if phase 1 ran no task and no timer is overdue; else polls for I/O.
//   3. I/O: serves what phase 2 found, for io_time at most; then runs the operations that the I/O
//      deferred, and heavy operations, for heavy_time at most.
//   4. Timers that were due when phase 3 began.
inline std::size_t event_loop::turn(steady_time deadline) {
  constexpr std::uint64_t turns_per_look = 64;
  turns_.add(1);
  // The recording may have been switched on or off meanwhile.
  if (turns_.get() % turns_per_look == 0) recorder_ = trace::detail::find_recorder();
  io_polled_at_.reset();
  std::size_t run_count = run_tasks();
  wakeup_time_ = 0;
  if (stopped()) return run_count;
  begin_time_limits();
  // Deferred operations remain from the turn before if on_exception has thrown.
  const bool may_wait = run_count == 0 && deadline != steady_time::min() && !io_slice_.is_over() &&
                        deferred_operations_.empty() && heavy_.empty() &&
                        !timers_.has_overdue_timers();
  if (may_wait) {
    wait_for_work(deadline);
    run_count += run_io();
  } else if (is_watching()) {
    poll_for_io();
    run_count += run_io();
  }
  if (!deferred_operations_.empty() || !heavy_.empty()) run_count += run_deferred();
  return run_count + run_timers();
}

// Gives the time limits that were started since the last call their deadlines.
void event_loop::begin_time_limits() noexcept {
  if (timers_.has_delays_to_begin()) timers_.begin_delays(now());
}

// ---- 1. tasks

std::size_t event_loop::run_tasks() {
  const bool has_watches = is_watching();
  const bool is_timed = (has_watches || !timers_.empty()) && has_tasks();
  if (has_watches && !is_timed) return 0;  // the fast path of a loop that serves descriptors
  const steady_time start_time = is_timed ? now() : steady_time{};
  const std::uint64_t begin = trace::detail::begin_event(recorder_);
  batch_ =
      inbox::batch(wait_strategy_.next_batch(*this, has_watches, batch_size_), &post_lateness_);
  if (wakeup_time_ != 0) record_wakeup();
  const auto run = [&] {
    if (!chain_.empty()) chain_.run(batch_);
    if (batch_.more()) !overflow_.empty() ? run_all() : run_inbox_tasks();
  };
  run_and_count(run, [&] {
    if (batch_.ran() == 0) return;
    wait_strategy_.record_batch(batch_.ran());
    tasks_run_.add(batch_.ran());
    tasks_since_sleep_ += batch_.ran();
    if (tasks_since_sleep_ >= detail::sleep_gate::many_tasks) gate_.note_many_tasks();
    if (recorder_ != nullptr) record_batch(begin);
  });
  if (is_timed && batch_.ran() > 0) adapt_batch(now() - start_time);
  return batch_.ran();
}

void event_loop::run_all() {
  // The inbox and the overflow queue take turns to be first, so that neither starves in small
  // batches.
  is_inbox_first_ = !is_inbox_first_;
  if (!is_inbox_first_) run_overflow();
  run_inbox_tasks();
  if (is_inbox_first_) run_overflow();
}

inline void event_loop::run_inbox_tasks() {
  if (recorder_ != nullptr && measured_tasks_.records_each() && run_measured()) return;
  is_limited_ ? run_limited() : run_inbox(batch_);
}

// Runs tasks one by one, and records those that take long. Returns false, and runs no task, if the
// inbox does not tell the code of its tasks.
bool event_loop::run_measured() {
  std::uint64_t code = next_task_code();
  if (code == 0) return false;
  trace::detail::function_sequence tasks(recorder_, trace::detail::event_kind::task,
                                         trace::detail::event_kind::coroutine);
  for (; batch_.more() && code != 0; code = next_task_code()) {
    if (is_limited_) release_slot();
    batch_.count(1);
    inbox::batch single_task(1, &post_lateness_);
    tasks.begin_function(code);
    run_inbox(single_task);
    tasks.end_function();
  }
  return true;
}

// Records a batch that began at `begin`, in ticks, unless its tasks were recorded.
void event_loop::record_batch(std::uint64_t begin) noexcept {
  const std::uint64_t length = detail::read_ticks() - begin;
  const bool were_measured = measured_tasks_.records_each();
  measured_tasks_.end_batch(length, batch_.ran());
  if (were_measured || length < trace::detail::min_function_length()) return;
  recorder_->push({.begin = begin,
                   .length = length,
                   .kind = trace::detail::event_kind::batch,
                   .object = 0,
                   .value = batch_.ran()});
}

// Runs tasks of a limited inbox. Releases the slot of each task before the task runs, so that the
// task may post a successor.
void event_loop::run_limited() {
  while (batch_.more() && inbox_ready()) {
    release_slot();
    batch_.count(1);
    inbox::batch single_task(1, &post_lateness_);
    run_inbox(single_task);
  }
}

void event_loop::run_overflow() {
  // Operations that exceed this batch stay drained, in front of operations that are pushed
  // meanwhile.
  overflow_.drain();
  while (batch_.more()) {
    operation* const next_operation = overflow_.pop();
    if (next_operation == nullptr) return;
    if (is_limited_) release_slot();
    batch_.count(1);
    next_operation->execute();
  }
}

// The loop had no task when it fell asleep, so the post that woke it is the first of this batch. If
// the loop has seen that task before the post could wake it, no task may be left.
void event_loop::record_wakeup() noexcept {
  if (has_tasks())
    wakeup_lateness_.record(now().time_since_epoch() - std::chrono::nanoseconds{wakeup_time_});
}

// Timers and descriptors are served only between batches, so a batch that took too long halves the
// size of the next batch. A full batch that took no longer than batch_time doubles it.
void event_loop::adapt_batch(duration run_time) noexcept {
  if (run_time > options_.batch_time) {
    batch_size_ = std::max<std::size_t>(batch_.ran() / 2, 1);
  } else if (batch_.full()) {
    batch_size_ = std::min(batch_size_ * 2, options_.batch);
  }
}

// ---- 2. events

bool event_loop::poll_for_io() {
  polls_.add(1);
  return poller_->wait(steady_time::min()) > 0;
}

inline void event_loop::wait_for_work(steady_time deadline) {
  const bool has_watches = is_watching();
  if (wait_strategy_.poll_before_sleeping(*this, has_watches)) return;
  if (const auto wakeup = timers_.next_wakeup()) deadline = std::min(deadline, *wakeup);
  if (!wait_strategy_.stay_awake(*this, has_watches, deadline)) sleep_until(deadline);
}

void event_loop::sleep_until(steady_time deadline) {
  // A busy loop cannot distinguish tasks posted by itself from those of other threads, so once in
  // this many sleeps it leaves the busy state, to find out whether other threads still post.
  constexpr unsigned busy_sleeps = 64;
  const bool had_many = std::exchange(tasks_since_sleep_, 0) >= detail::sleep_gate::many_tasks;
  struct awake {
    detail::sleep_gate& gate;
    bool busy;
    ~awake() { gate.wake_up(busy); }
  } const afterwards{gate_, gate_.fall_asleep() && had_many && ++busy_sleeps_ % busy_sleeps != 0};
  // The second check sees a task posted before the fence in fall_asleep(); a later post wakes the
  // loop.
  if (has_tasks() || stopped()) return;
  sleeps_.add(1);
  const std::uint64_t begin = trace::detail::begin_event(recorder_);
  poller_->wait(deadline);
  trace::detail::end_event(recorder_, begin, trace::detail::event_kind::sleep,
                           trace::detail::address_of(this));
  // relaxed, here and in wake_poller(): the poller's wake-up orders the accesses.
  wakeup_time_ = new_wakeup_time_.load(std::memory_order_relaxed);
  if (wakeup_time_ != 0) new_wakeup_time_.store(0, std::memory_order_relaxed);
}

// ---- 3. I/O

std::size_t event_loop::run_io() {
  io_polled_at_ = timers_.empty() ? steady_time::min() : now();
  io_slice_.begin(*io_polled_at_);
  std::size_t completion_count = 0;
  is_serving_io_ = true;
  trace::detail::function_sequence callbacks(recorder_, trace::detail::event_kind::io_callback,
                                             trace::detail::event_kind::io_coroutine);
  run_and_count([&] { poller_->complete(completion_count); },
                [&] {
                  is_serving_io_ = false;
                  io_slice_.end();
                  if (recorder_ != nullptr) record_io(callbacks, completion_count);
                  io_events_.add(completion_count);
                  descriptors_watched_.set(poller_->watched());
                });
  return completion_count;
}

// Records the phase of I/O, which lasted until the end of its last callback.
void event_loop::record_io(const trace::detail::function_sequence& callbacks,
                           std::size_t completions) noexcept {
  const std::uint64_t length = callbacks.last() - callbacks.first();
  if (length < trace::detail::min_function_length()) return;
  recorder_->push({.begin = callbacks.first(),
                   .length = length,
                   .kind = trace::detail::event_kind::io,
                   .object = 0,
                   .value = completions});
}

// The list does not grow here, because defer() posts while the loop serves no I/O.
std::size_t event_loop::run_deferred() {
  std::size_t operation_count = 0;
  const auto run = [&] {
    {
      trace::detail::function_sequence operations(recorder_, trace::detail::event_kind::task,
                                                  trace::detail::event_kind::coroutine);
      while (operation* const next_operation = deferred_operations_.pop_front()) {
        ++operation_count;
        operations.begin_function(next_operation->code());
        next_operation->execute();
        operations.end_function();
      }
    }
    if (heavy_.empty()) return;
    const std::uint64_t begin = trace::detail::begin_event(recorder_);
    heavy_.run(*poller_, options_.heavy_time, operation_count);
    trace::detail::end_event(recorder_, begin, trace::detail::event_kind::heavy, 0);
  };
  run_and_count(run, [&] { tasks_run_.add(operation_count); });
  return operation_count;
}

// ---- 4. timers

// Timers that became due after phase 3 began must wait for the next turn, which first serves input
// that arrived meanwhile: a read must not time out because other handlers took long.
std::size_t event_loop::run_timers() {
  if (timers_.empty()) return 0;
  const steady_time due_until = io_polled_at_ ? *io_polled_at_ : now();
  std::size_t fired_count = 0;
  // The clock of the records is read only if a timer fires.
  std::optional<trace::detail::function_sequence> timers;
  const bool records_each = measured_timers_.records_each();
  duration lateness{};
  const auto fire = [&](detail::timer_node& timer) {
    // A deadline before the clock's epoch means "at once", and the difference might overflow. A
    // timer that was due when it was started fires even if the present time was not read since.
    const steady_time due_at = timer.deadline();
    if (due_at >= steady_time{}) {
      const duration late_by = std::max(due_until, due_at) - due_at;
      timer_lateness_.record(late_by);
      lateness = std::max(lateness, late_by);
    }
    auto& operation = static_cast<timer_operation&>(timer);
    if (++fired_count == 1) {
      timers.emplace(recorder_, trace::detail::event_kind::timer,
                     trace::detail::event_kind::timer_coroutine);
    }
    if (!records_each) return operation.expire();
    timers->begin_function(operation.code());
    operation.expire();
    timers->end_function();
  };
  run_and_count([&] { timers_.advance(due_until, options_.batch, fire); },
                [&] {
                  timers_fired_.add(fired_count);
                  timers_pending_.set(timers_.size());
                  if (recorder_ != nullptr && fired_count > 0)
                    record_timers(timers->first(), lateness, fired_count);
                });
  return fired_count;
}

// Records the phase of timers, unless its timers were recorded, and a lateness that a user may
// notice.
void event_loop::record_timers(std::uint64_t begin, duration lateness,
                               std::size_t timer_count) noexcept {
  const std::uint64_t time = detail::read_ticks();
  const bool were_measured = measured_timers_.records_each();
  measured_timers_.end_batch(time - begin, timer_count);
  if (!were_measured && time - begin >= trace::detail::min_function_length()) {
    recorder_->push({.begin = begin,
                     .length = time - begin,
                     .kind = trace::detail::event_kind::timers,
                     .object = 0,
                     .value = timer_count});
  }
  if (lateness < notable_lateness) [[likely]]
    return;
  // A loop that is behind records this in each turn, and a measurement reads both clocks 8 times.
  static const detail::tick_rate rate = detail::measured_tick_rate();
  const std::uint64_t length = rate.to_ticks(lateness);
  recorder_->push({.begin = time - std::min(length, time),
                   .length = length,
                   .kind = trace::detail::event_kind::late_timers,
                   .object = 0,
                   .value = timer_count});
}

// Runs `work`, then `count_tasks`, even after an exception of `work`. on_exception gets that
// exception last, because it may throw.
template <class Work, class Count>
void event_loop::run_and_count(Work&& work, Count&& count_tasks) {
  try {
    work();
  } catch (...) {
    count_tasks();
    exceptions_.add(1);
    options_.on_exception(std::current_exception());
    return;
  }
  count_tasks();
}

bool event_loop::is_run_here() const noexcept { return in_loop_thread(); }

bool event_loop::claim_wake_up() noexcept {
  return in_loop_thread() ? gate_.claim_wake_up() : gate_.claim_remote_wake_up();
}

void event_loop::wake_unless_awake() noexcept {
  if (claim_wake_up()) wake_poller();
}

void event_loop::wake_poller() noexcept {
  trace::detail::record_moment(trace::detail::event_kind::wake, trace::detail::address_of(this));
  new_wakeup_time_.store(now().time_since_epoch().count(), std::memory_order_relaxed);
  signal_poller();
}

void event_loop::signal_poller() noexcept {
  // relaxed: the statistic orders nothing.
  wakeups_.fetch_add(1, std::memory_order_relaxed);
  poller_->wake();
}

void event_loop::push_without_memory(operation& op) noexcept { overflow_.push(op); }

void event_loop::post_release(detail::release_node& release) noexcept {
  if (!releases_.push(release)) return;
  if (is_limited_) slots_in_use_.fetch_add(1, std::memory_order_relaxed);
  push_without_memory(releases_);
  wake_if_asleep();
}

void event_loop::run_last_releases() noexcept {
  do {
    overflow_.clear();  // overflow_ may contain releases_, which a new release pushes again
  } while (releases_.run_at_loop_end());
}

// Takes a slot if fewer than inbox_limit are in use. relaxed: the count orders nothing.
std::optional<event_loop::inbox_slot> event_loop::try_take_slot() noexcept {
  if (!is_limited_) return nullptr;
  std::size_t slots_in_use = slots_in_use_.load(std::memory_order_relaxed);
  while (slots_in_use < options_.inbox_limit) {
    if (slots_in_use_.compare_exchange_weak(slots_in_use, slots_in_use + 1,
                                            std::memory_order_relaxed)) {
      return inbox_slot(this);
    }
  }
  refused_tasks_.fetch_add(1, std::memory_order_relaxed);
  return std::nullopt;
}

void event_loop::watch(readiness_operation& op, readiness interest, trigger mode) {
  poller_->watch(op, interest, mode);
  descriptors_watched_.set(poller_->watched());
}

void event_loop::unwatch(readiness_operation& op) noexcept {
  poller_->unwatch(op);
  descriptors_watched_.set(poller_->watched());
}

void event_loop::start_timer(timer_operation& timer, steady_time deadline) noexcept {
  timers_.start(timer, deadline);
  timers_pending_.set(timers_.size());
}

void event_loop::start_time_limit(timer_operation& timer, duration limit) noexcept {
  timers_.start_after(timer, limit);
  timers_pending_.set(timers_.size());
}

bool event_loop::cancel_timer(timer_operation& timer) noexcept {
  const bool was_active = timers_.cancel(timer);
  timers_pending_.set(timers_.size());
  return was_active;
}

steady_time event_loop::deadline_after(duration delay) const noexcept {
  return detail::timer_wheel::deadline_after(now(), delay);
}

void event_loop::start_delayed(steady_time deadline, move_only_function<void()> task) {
  auto* const timer_task = new delayed_task(std::move(task));
  delayed_tasks_.push_back(*timer_task);
  start_timer(*timer_task, deadline);
}

void event_loop::discard_delayed() noexcept {
  while (delayed_task* task = delayed_tasks_.pop_front()) {
    cancel_timer(*task);
    delete task;
  }
}

loop_metrics event_loop::metrics() const {
  return {
      .io = poller_->name(),
      .tasks_run = tasks_run_.get(),
      .tasks_refused = refused_tasks_.load(std::memory_order_relaxed),
      .timers_fired = timers_fired_.get(),
      .io_events = io_events_.get(),
      .exceptions = exceptions_.get(),
      .turns = turns_.get(),
      .polls = polls_.get(),
      .sleeps = sleeps_.get(),
      .wakeups = wakeups_.load(std::memory_order_relaxed),
      .tasks_pending = inbox_pending() + chain_.pending(),
      .timers_pending = timers_pending_.get(),
      .descriptors_watched = descriptors_watched_.get(),
      .timer_lateness = timer_lateness_,
      .wakeup_lateness = wakeup_lateness_,
      .post_lateness = post_lateness_,
  };
}

void event_loop::after_fork_in_child() {
  poller_->after_fork();
  gate_.wake_up();
}

}  // namespace gyre
