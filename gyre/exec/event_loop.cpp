// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/event_loop.hpp>

#include <gyre/base/error.hpp>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace gyre {
namespace {

[[noreturn]] void report_and_terminate(const std::exception_ptr& error) {
  detail::terminate_with(error, "left a task of a loop");
}

}  // namespace

loop_metrics& loop_metrics::operator+=(const loop_metrics& other) noexcept {
  if (*io == '\0') {
    io = other.io;
  } else if (*other.io != '\0' && std::strcmp(io, other.io) != 0) {
    io = "several";
  }
  tasks_run += other.tasks_run;
  tasks_refused += other.tasks_refused;
  timers_fired += other.timers_fired;
  io_events += other.io_events;
  exceptions += other.exceptions;
  turns += other.turns;
  polls += other.polls;
  sleeps += other.sleeps;
  wakeups += other.wakeups;
  tasks_pending += other.tasks_pending;
  timers_pending += other.timers_pending;
  descriptors_watched += other.descriptors_watched;
  return *this;
}

// Marks the calling thread as the one that runs the loop.
class event_loop::running {
 public:
  explicit running(event_loop& loop) : loop_(loop) {
    if (loop.in_loop_thread()) {
      throw std::logic_error("gyre: a loop was run from one of its own tasks");
    }
    loop_.outer_ = current_loop_;
    current_loop_ = &loop_;
  }
  running(const running&) = delete;
  running& operator=(const running&) = delete;
  ~running() { current_loop_ = loop_.outer_; }

 private:
  event_loop& loop_;
};

// A task that waits for its time.
class event_loop::delayed_task : public timer_operation, public intrusive_list_node {
 public:
  explicit delayed_task(move_only_function<void()> task) noexcept
      : timer_operation(&run), task_(std::move(task)) {}

 private:
  static void run(timer_operation& self) {
    const std::unique_ptr<delayed_task> due(static_cast<delayed_task*>(&self));
    due->intrusive_list_node::unlink();
    due->task_();
  }

  move_only_function<void()> task_;
};

event_loop::event_loop(loop_options options, std::unique_ptr<gyre::poller> poller)
    : limited_(options.inbox_limit != loop_options::unlimited),
      gate_(options.wakeup == wakeup::per_task),
      options_(std::move(options)),
      poller_(std::move(poller)),
      timers_(poller_->now()),
      io_slice_(*poller_, options_.io_time),
      batch_size_(std::max<std::size_t>(options_.batch, 1)) {
  options_.batch = batch_size_;
  if (!options_.on_exception) options_.on_exception = report_and_terminate;
  poller_->set_slice(&io_slice_);
}

event_loop::~event_loop() { assert(!in_loop_thread() && "loop destroyed from its own task"); }

void event_loop::run() {
  const running here(*this);
  struct leaving {
    gyre::poller& left;
    ~leaving() { left.leave(); }
  } const in_the_end{*poller_};
  while (!stopped()) turn(steady_time::max());
}

bool event_loop::run_once() {
  const running here(*this);
  while (!stopped()) {
    if (turn(steady_time::max()) > 0) return true;
  }
  return false;
}

bool event_loop::poll() {
  const running here(*this);
  return !stopped() && turn(steady_time::min()) > 0;
}

void event_loop::run_for(std::chrono::nanoseconds duration) { run_until(deadline_after(duration)); }

void event_loop::run_until(steady_time deadline) {
  const running here(*this);
  while (!stopped() && now() < deadline) turn(deadline);
}

void event_loop::stop() noexcept {
  // release: pairs with the acquire in stopped().
  stopped_.store(true, std::memory_order_release);
  if (in_loop_thread()) batch_.end();
  // On the loop's thread too: this may be a signal handler, and the loop about to sleep.
  announce();
}

void event_loop::restart() noexcept { stopped_.store(false, std::memory_order_relaxed); }

// Tasks first, then timers and descriptors: what was posted before run() runs before it first polls.
std::size_t event_loop::turn(steady_time deadline) {
  turns_.add(1);
  looked_for_io_.reset();
  std::size_t done = run_tasks();
  if (stopped()) return done;
  const bool may_wait = done == 0 && deadline != steady_time::min() && !io_slice_.was_cut();
  done += may_wait ? wait_until(deadline) : poll_io();
  return done + run_timers();
}

std::size_t event_loop::run_tasks() {
  const bool timed = (poller_->watched() > 0 || !timers_.empty()) && tasks_ready();
  const steady_time started = timed ? now() : steady_time{};
  batch_ = inbox::batch(batch_size_);
  const auto run = [&] {
    // In turn, so that neither keeps the other out of a small batch.
    const bool some_left_over = has_left_over();
    if (some_left_over) [[unlikely]]
      left_over_last_ = !left_over_last_;
    if (some_left_over && !left_over_last_) run_left_over();
    if (limited_) {
      run_limited();
    } else {
      run_inbox(batch_);
    }
    if (some_left_over && left_over_last_) run_left_over();
  };
  guarded(run, [&] {
    if (batch_.ran() == 0) return;
    last_batch_ = batch_.ran();
    tasks_came_ = true;
    tasks_run_.add(last_batch_);
  });
  if (timed && batch_.ran() > 0) adapt_batch(now() - started);
  return batch_.ran();
}

// A task leaves the count before it runs, so that it may post its successor within the limit.
void event_loop::run_limited() {
  while (batch_.more() && inbox_ready()) {
    leave();
    batch_.count(1);
    inbox::batch one(1);
    run_inbox(one);
  }
}

// Few, and seldom any: they do not count as a batch of their own.
void event_loop::run_left_over() {
  // The ones that this batch has no room for stay in front of those that are pushed meanwhile.
  auto newer = left_over_.pop_all();
  left_over_taken_.splice_back(newer);
  while (batch_.more()) {
    operation* const next = left_over_taken_.pop_front();
    if (next == nullptr) return;
    if (limited_) leave();
    batch_.count(1);
    next->execute();
  }
}

// Timers and descriptors have waited as long as the batch took, full or not: when that was too long,
// half as many tasks next time.
void event_loop::adapt_batch(std::chrono::nanoseconds taken) noexcept {
  if (taken > options_.batch_time) {
    batch_size_ = std::max<std::size_t>(batch_.ran() / 2, 1);
  } else if (batch_.full()) {
    batch_size_ = std::min(batch_size_ * 2, options_.batch);
  }
}

// Asks for I/O without waiting, and serves what there is.
std::size_t event_loop::poll_io() {
  if (poller_->watched() == 0) return 0;
  ask_poller();
  return run_io();
}

bool event_loop::ask_poller() {
  polls_.add(1);
  return poller_->wait(steady_time::min()) > 0;
}

// To fall asleep costs a heavy fence, and to be woken far more. A loop whose descriptors keep it busy
// asks for I/O first and finds some; one that would mostly ask in vain, such as the end of a single
// connection, sleeps at once. Tasks are looked for where they have come.
std::size_t event_loop::wait_until(steady_time deadline) {
  const bool watching = poller_->watched() > 0;
  if (watching && poll_first_.worth_it()) {
    if (ask_poller()) {
      poll_first_.paid();
      return run_io();
    }
    poll_first_.wasted();
  }
  if (const auto next = timers_.next_wakeup()) deadline = std::min(deadline, *next);
  const bool looks = std::exchange(tasks_came_, false) || !watching;
  if (looks && look_for_tasks(deadline)) return run_io();
  if (poll_busily(deadline)) return run_io();
  return sleep_until(deadline);
}

std::size_t event_loop::sleep_until(steady_time deadline) {
  {
    gate_.fall_asleep();
    struct awake {
      detail::sleep_gate& again;
      ~awake() { again.wake_up(); }
    } const at_last{gate_};
    // Looked at once more: what came before the fence is seen here, what comes later wakes us.
    if (!tasks_ready() && !stopped()) {
      sleeps_.add(1);
      poller_->wait(deadline);
    }
  }
  return run_io();
}

// Some 25 us at most, and no longer than producers can go on without being slowed down.
void event_loop::let_tasks_gather() const noexcept {
  constexpr int looks = 32;
  constexpr int pauses = 64;
  constexpr std::size_t enough = 2048;
  for (int look = 0; look < looks && inbox_pending() < enough && !stopped(); ++look) {
    for (int pause = 0; pause < pauses; ++pause) detail::cpu_relax();
  }
}

// Looks for tasks for a while instead of going to sleep. Where they come in numbers and nothing else
// is to be served, it first lets some gather (to take each one as it is put would move its cache
// line to and fro). Now and then it asks for I/O, and offers its core to producers that wait for one;
// rivals that use it up take their whole time slices, so it looks at the clock when it comes back.
bool event_loop::look_for_tasks(steady_time deadline) {
  constexpr std::size_t in_numbers = 16;
  constexpr auto longest = std::chrono::microseconds{100};
  const bool watching = poller_->watched() > 0;
  const bool busy = last_batch_ >= in_numbers && !watching;
  if (busy) let_tasks_gather();
  const int yields_every = busy ? 4 : 32;
  const bool yields = spin_.looks() >= yields_every;
  const steady_time give_up = yields ? std::min(deadline, now() + longest) : deadline;
  for (int look = 1; look <= spin_.looks(); ++look) {
    if (tasks_ready() || stopped()) {
      spin_.paid(look);
      return true;
    }
    if (look % yields_every == 0) {
      if (watching && ask_poller()) {
        spin_.wasted();
        return true;
      }
      detail::thread_yield();
      if (now() >= give_up) break;
    } else {
      detail::cpu_relax();
    }
  }
  spin_.wasted();
  return false;
}

// Stays awake for what comes soon. True if something did; also when a timer is due.
bool event_loop::poll_busily(steady_time deadline) {
  if (options_.busy_poll <= std::chrono::nanoseconds::zero()) return false;
  if (!busy_poll_.worth_it()) return false;
  const bool watching = poller_->watched() > 0;
  const steady_time give_up = detail::later(now(), options_.busy_poll);
  while (true) {
    if (tasks_ready() || stopped() || (watching && ask_poller())) break;
    const steady_time present = now();
    if (present >= deadline) break;
    if (present >= give_up) {
      busy_poll_.wasted();
      return false;
    }
    detail::cpu_relax();
  }
  busy_poll_.paid();
  return true;
}

std::size_t event_loop::run_io() {
  looked_for_io_ = timers_.empty() ? steady_time::min() : now();
  io_slice_.begin(*looked_for_io_);
  std::size_t completed = 0;
  guarded([&] { poller_->complete(completed); },
          [&] {
            io_events_.add(completed);
            descriptors_watched_.set(poller_->watched());
          });
  return completed;
}

// Those that were due when the loop looked for I/O. What has come while it served that comes first: a
// read is not timed out because others took long.
std::size_t event_loop::run_timers() {
  if (timers_.empty()) return 0;
  const steady_time due_until = looked_for_io_ ? *looked_for_io_ : now();
  std::size_t fired = 0;
  const auto fire = [&](detail::timer_node& due) {
    ++fired;
    static_cast<timer_operation&>(due).expire();
  };
  guarded([&] { timers_.advance(due_until, options_.batch, fire); },
          [&] {
            timers_fired_.add(fired);
            timers_pending_.set(timers_.size());
          });
  return fired;
}

// Counts what was done before it hands an exception on: the handler may throw.
template <class Work, class Count>
void event_loop::guarded(Work&& work, Count&& count) {
  try {
    work();
  } catch (...) {
    count();
    exceptions_.add(1);
    options_.on_exception(std::current_exception());
    return;
  }
  count();
}

void event_loop::wake() noexcept {
  // relaxed: a statistic.
  wakeups_.fetch_add(1, std::memory_order_relaxed);
  poller_->wake();
}

void event_loop::push_without_memory(operation& op) noexcept { left_over_.push(op); }

void event_loop::enter() noexcept { waiting_.fetch_add(1, std::memory_order_relaxed); }
void event_loop::leave() noexcept { waiting_.fetch_sub(1, std::memory_order_relaxed); }

// relaxed: a count that orders nothing.
event_loop::admission event_loop::admit() noexcept {
  if (!limited_) return admission(nullptr);
  std::size_t waiting = waiting_.load(std::memory_order_relaxed);
  while (waiting < options_.inbox_limit) {
    if (waiting_.compare_exchange_weak(waiting, waiting + 1, std::memory_order_relaxed)) {
      return admission(this);
    }
  }
  refused_.fetch_add(1, std::memory_order_relaxed);
  return admission(nullptr, false);
}

void event_loop::watch(readiness_operation& op, readiness interest, trigger how) {
  poller_->watch(op, interest, how);
  descriptors_watched_.set(poller_->watched());
}

void event_loop::rewatch(readiness_operation& op, readiness interest, trigger how) {
  poller_->rewatch(op, interest, how);
}

void event_loop::unwatch(readiness_operation& op) noexcept {
  poller_->unwatch(op);
  descriptors_watched_.set(poller_->watched());
}

void event_loop::start_timer(timer_operation& timer, steady_time deadline) noexcept {
  timers_.start(timer, deadline);
  timers_pending_.set(timers_.size());
}

bool event_loop::cancel_timer(timer_operation& timer) noexcept {
  const bool was_active = timers_.cancel(timer);
  timers_pending_.set(timers_.size());
  return was_active;
}

steady_time event_loop::deadline_after(std::chrono::nanoseconds delay) const noexcept {
  const steady_time present = now();
  if (delay <= std::chrono::nanoseconds{0}) return present - detail::timer_wheel::tick_length;
  return detail::later(present, delay);
}

void event_loop::start_delayed(steady_time deadline, move_only_function<void()> task) {
  auto* const delayed = new delayed_task(std::move(task));
  delayed_.push_back(*delayed);
  start_timer(*delayed, deadline);
}

void event_loop::discard_delayed() noexcept {
  while (delayed_task* each = delayed_.pop_front()) {
    cancel_timer(*each);
    delete each;
  }
}

loop_metrics event_loop::metrics() const {
  return {
      .io = poller_->name(),
      .tasks_run = tasks_run_.get(),
      .tasks_refused = refused_.load(std::memory_order_relaxed),
      .timers_fired = timers_fired_.get(),
      .io_events = io_events_.get(),
      .exceptions = exceptions_.get(),
      .turns = turns_.get(),
      .polls = polls_.get(),
      .sleeps = sleeps_.get(),
      .wakeups = wakeups_.load(std::memory_order_relaxed),
      .tasks_pending = inbox_pending(),
      .timers_pending = timers_pending_.get(),
      .descriptors_watched = descriptors_watched_.get(),
  };
}

void event_loop::after_fork_in_child() {
  poller_->after_fork();
  gate_.wake_up();
}

}  // namespace gyre
