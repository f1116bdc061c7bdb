// SPDX-License-Identifier: Apache-2.0
//
// The scheduler: the search over schedules, and the switches between threads.
#include <tests/model/scheduler.hpp>

#include <cxxabi.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace gyre::model {

// ---- The search ----------------------------------------------------------------------------

std::array<scheduler::thread_state*, max_threads>& scheduler::all_threads() {
  static std::array<thread_state*, max_threads> made = [] {
    std::array<thread_state*, max_threads> threads;
    for (auto& each : threads) each = new thread_state;  // for as long as the program runs
    return threads;
  }();
  return made;
}

scheduler::scheduler(const options& bounds, const std::function<void()>& body)
    : bounds_(bounds), body_(body) {}

result scheduler::run() {
  result found;
  image_.emplace();
  if (!bounds_.replay.empty()) {
    const std::size_t slash = bounds_.replay.find('/');
    preemption_bound_ = static_cast<unsigned>(std::stoul(bounds_.replay));
    decisions_.parse(bounds_.replay.substr(slash + 1));
    logging_ = true;
    found.schedules = 1;
    if (run_once() == outcome::failed) found.failure = failure_;
    found.trace = bounds_.replay;
    found.story = log_;
    found.finished = true;
    return found;
  }
  preemption_bound_ = bounds_.keep_equivalent ? bounds_.preemptions : 0;
  for (;; ++preemption_bound_) {
    bound_mattered_ = false;
    decisions_.clear();
    seen_.clear();
    found.schedules = 0;
    found.preemptions = preemption_bound_;
    search(found);
    if (!found.finished || !found.failure.empty()) return found;
    found.exhaustive = !bound_mattered_ && bounds_.stale_reads == unlimited;
    if (!bound_mattered_ || preemption_bound_ >= bounds_.preemptions) return found;
  }
}

void scheduler::search(result& found) {
  found.finished = false;
  do {
    if (found.schedules + found.pruned >= bounds_.max_schedules) {
      found.failure = "not finished after " + std::to_string(bounds_.max_schedules) + " schedules";
      return;
    }
    const outcome how = run_once();
    ++(how == outcome::pruned ? found.pruned : found.schedules);
    found.steps += steps_;
    if (how == outcome::failed) {
      replay_failing_schedule(found);
      return;
    }
  } while (decisions_.advance());
  found.finished = true;
}

// Runs the failing schedule once more, to record its operations.
void scheduler::replay_failing_schedule(result& found) {
  found.failure = failure_;
  // The trace contains the bound: once preemptions are exhausted, no decision is recorded.
  found.trace = std::to_string(preemption_bound_) + '/' + decisions_.to_string();
  logging_ = true;
  run_once();
  found.story = std::move(log_);
}

void scheduler::prepare() {
  image_->restore();
  for (thread_state* each : threads_) {
    each->arena.forget_all();
    each->sees = {};
    each->status = status::unused;
    each->at_exit.clear();
  }
  memory_.reset();
  sync_objects_.clear();
  at_program_exit_.clear();
  names_.clear();
  log_.clear();
  decisions_.rewind();
  started_ = 0;
  steps_ = 0;
  preemptions_left_ = preemption_bound_;
  stale_reads_left_ = bounds_.stale_reads;
  spurious_failures_left_ = bounds_.spurious_failures;
  busy_ = true;
}

scheduler::outcome scheduler::run_once() {
  prepare();
  running_ = threads_[0];
  running_->status = status::ready;
  running_->yielded_to = 0;
  running_->sees.now.ticks[0] = 1;
  running_->body = nullptr;
  running_->in_turn = true;
  started_ = 1;
  running_->fiber.start(&scheduler::enter_thread);
  fiber::switch_between(nullptr, &running_->fiber);
  if (outcome_ == outcome::completed) check_leaks();
  return outcome_;
}

void scheduler::check_leaks() {
  if (!bounds_.leaks_fail) return;
  for (const thread_state* each : threads_) {
    for (const arena::block& block : each->arena.blocks()) {
      if (!block.live) continue;
      failure_ = "leak: " + std::to_string(block.size) + " bytes allocated by thread " +
                 std::to_string(each->sees.id) + " (block " +
                 std::to_string(&block - each->arena.blocks().data()) + ") are never freed";
      log_ += failure_ + '\n';
      outcome_ = outcome::failed;
      return;
    }
  }
}

// ---- Threads -------------------------------------------------------------------------------

void scheduler::enter_thread() {
  std::memset(static_cast<void*>(abi::__cxa_get_globals()), 0, 2 * sizeof(void*));
  scheduler& self = *current();
  thread_state& mine = *self.running_;
  self.busy_ = false;
  if (mine.body == nullptr) {
    self.body_();
  } else {
    (*mine.body)();
    delete mine.body;
  }
  self.finish_thread();
}

void scheduler::finish_thread() {
  thread_state& mine = *running_;
  const auto run_all = [](std::vector<exit_call>& calls) {
    while (!calls.empty()) {
      const exit_call last = calls.back();
      calls.pop_back();
      last.function(last.object);
    }
  };
  run_all(mine.at_exit);
  unsigned unfinished = 0;
  for (const thread_state* each : threads_) {
    unfinished += each->status == status::ready || each->status == status::blocked ? 1 : 0;
  }
  if (unfinished == 1) {
    run_all(at_program_exit_);
    end(outcome::completed);
  }
  busy_ = true;
  if (logging_) log({}, "ends");
  mine.status = status::finished;
  moved();
  unblock(&mine);
  yield_processor();
  std::unreachable();
}

void scheduler::end(outcome how) {
  outcome_ = how;
  busy_ = true;
  thread_state& last = *std::exchange(running_, nullptr);
  fiber::switch_between(&last.fiber, nullptr);
  std::unreachable();
}

void scheduler::fail(const std::string& why, const void* pc, const void* other) {
  busy_ = true;
  failure_ = "thread " + std::to_string(running_->sees.id) + ": ";
  failure_ += why;  // a copy: the memory of `why` belongs to this schedule
  failure_pcs_[0] = pc;
  failure_pcs_[1] = other;
  if (logging_) log_ += "FAILED: " + failure_ + '\n' + source_lines(failure_pcs_);
  end(outcome::failed);
}

std::vector<scheduler::thread_state*>& scheduler::eligible(const thread_state* except) {
  candidates_.clear();
  for (unsigned i = 1; i <= started_; ++i) {
    thread_state* each = threads_[(running_->sees.id + i) % started_];
    if (each != except && each->status == status::ready && each->yielded_to == 0) {
      candidates_.push_back(each);
    }
  }
  return candidates_;
}

void scheduler::count_step() {
  if (++steps_ <= bounds_.max_steps) return;
  gyre::model::fail("livelock: " + std::to_string(bounds_.max_steps) + " operations and no end");
}

// Runs before each operation.
void scheduler::step() {
  count_step();
  // A thread that starts or returns from a yield was chosen to run this operation.
  if (std::exchange(running_->in_turn, false)) return;
  prune_if_seen();
  auto& others = eligible(running_);
  if (others.empty()) return;
  if (preemptions_left_ == 0) {
    bound_mattered_ = true;
    return;
  }
  const unsigned taken = decisions_.decide(static_cast<unsigned>(others.size()) + 1);
  if (taken == 0) return;
  if (preemptions_left_ != unlimited) --preemptions_left_;
  switch_to(*others[taken - 1]);
}

// Schedules that reached this point by the same partial order of operations have the same future.
void scheduler::prune_if_seen() {
  if (decisions_.replaying() || logging_ || bounds_.keep_equivalent) return;
  fingerprint here = running_->sees.id;
  for (unsigned i = 0; i < started_; ++i) {
    here = mix(mix(here, threads_[i]->sees.history), threads_[i]->yielded_to);
  }
  here = mix(here, (fingerprint{stale_reads_left_} << 32) | spurious_failures_left_);
  unsigned& left = seen_[here];
  if (left != table::missing && left >= preemptions_left_) end(outcome::pruned);
  left = preemptions_left_;
}

// Runs after each operation.
void scheduler::moved() {
  observer& mine = running_->sees;
  ++mine.now.ticks[mine.id];
  for (thread_state* each : threads_) each->yielded_to &= ~(1U << mine.id);
}

// Switches to another thread without counting a preemption, as this one yields or is blocked.
void scheduler::yield_processor() {
  auto* next = &eligible(running_);
  if (next->empty()) {
    for (thread_state* each : threads_) each->yielded_to = 0;
    next = &eligible(running_);
  }
  if (!next->empty()) {
    switch_to(*(*next)[decisions_.decide(static_cast<unsigned>(next->size()))]);
    return;
  }
  if (running_->status == status::ready) return;
  std::string why = "deadlock:";
  for (const thread_state* each : threads_) {
    if (each->status != status::blocked) continue;
    why +=
        " thread " + std::to_string(each->sees.id) + " waits for ever in " + each->blocked_in + ';';
  }
  gyre::model::fail(why);
}

void scheduler::switch_to(thread_state& next) {
  thread_state& last = *std::exchange(running_, &next);
  next.yielded_to = 0;
  fiber::switch_between(&last.fiber, &next.fiber);
}

void scheduler::block(const void* on, const char* in) {
  running_->status = status::blocked;
  running_->blocked_on = on;
  running_->blocked_in = in;
  for (thread_state* each : threads_) each->yielded_to &= ~(1U << running_->sees.id);
  yield_processor();
}

void scheduler::unblock(const void* on) {
  for (thread_state* each : threads_) {
    if (each->status == status::blocked && each->blocked_on == on) each->status = status::ready;
  }
}

}  // namespace gyre::model
