// SPDX-License-Identifier: Apache-2.0
//
// The search, the threads' turns, and what each operation does when its turn has come.
#include <tests/model/scheduler.hpp>

#include <cxxabi.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

namespace gyre::model {
namespace {

// Loads and stores by value of the lower bytes only.
word truncate(word value, std::size_t size) {
  return size >= sizeof(word) ? value : value & ((word{1} << (size * 8)) - 1);
}

word updated(detail::update how, word old, word operand, std::size_t size) {
  using enum detail::update;
  switch (how) {
    case exchange: return operand;
    case add: return truncate(old + operand, size);
    case subtract: return truncate(old - operand, size);
    case bit_and: return old & operand;
    case bit_or: return old | operand;
    case bit_xor: return old ^ operand;
  }
  return operand;
}

const char* name_of(detail::update how) {
  constexpr std::array names{"exchange", "add", "subtract", "and", "or", "xor"};
  return names[static_cast<std::size_t>(how)];
}

const char* name_of(std::memory_order order) {
  constexpr std::array names{"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
  return names[static_cast<std::size_t>(order)];
}

std::string to_string(word value) {
  const auto low = static_cast<std::uint64_t>(value);
  if (value < 0x10000) return std::to_string(low);
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), low, 16).ptr;
  return (value >> 64) != 0 ? "…" + std::string(digits.data(), end)
                            : "0x" + std::string(digits.data(), end);
}

constexpr std::source_location in_mutex{};

}  // namespace

// ---- Decisions -----------------------------------------------------------------------------

unsigned decisions::decide(unsigned count) {
  if (count == 1) return 0;
  if (next_ == taken_.size()) taken_.push_back({.taken = 0, .count = count});
  decision& made = taken_[next_++];
  if (made.count == 0) made.count = count;
  if (made.count != count || made.taken >= count) {
    fail("the scenario is not deterministic: the same schedule offers other alternatives");
  }
  return made.taken;
}

bool decisions::advance() {
  while (!taken_.empty() && taken_.back().taken + 1 == taken_.back().count) taken_.pop_back();
  if (taken_.empty()) return false;
  ++taken_.back().taken;
  return true;
}

// The numbers of the alternatives taken; "zN" stands for N zeros, and zeros at the end for nothing.
std::string decisions::to_string() const {
  std::string trace;
  unsigned zeros = 0;
  for (const decision& each : taken_) {
    if (each.taken == 0) {
      ++zeros;
      continue;
    }
    if (!trace.empty()) trace += '.';
    if (zeros > 0) trace += 'z' + std::to_string(zeros) + '.';
    zeros = 0;
    trace += std::to_string(each.taken);
  }
  return trace.empty() ? "z0" : trace;
}

void decisions::parse(const std::string& trace) {
  clear();
  for (const char* at = trace.data(); at < trace.data() + trace.size(); ++at) {
    const bool zeros = *at == 'z';
    unsigned number = 0;
    at = std::from_chars(at + (zeros ? 1 : 0), trace.data() + trace.size(), number).ptr;
    taken_.insert(taken_.end(), zeros ? number : 1, {.taken = zeros ? 0 : number, .count = 0});
  }
}

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
    preemption_bound_ = unlimited;
    decisions_.parse(bounds_.replay);
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
      tell(found);
      return;
    }
  } while (decisions_.advance());
  found.finished = true;
}

// Runs the failing schedule once more, to write down what happens.
void scheduler::tell(result& found) {
  found.failure = failure_;
  found.trace = decisions_.to_string();
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
  if (logging_) log(in_mutex, "ends");
  mine.status = status::finished;
  moved();
  unblock(&mine);
  give_way();
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

// The place before each operation.
void scheduler::step() {
  count_step();
  // Whoever starts or comes back from a yield was chosen for the sake of this operation.
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

// Two schedules that led here by the same partial order of operations have the same future.
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

// After each operation.
void scheduler::moved() {
  observer& mine = running_->sees;
  ++mine.now.ticks[mine.id];
  for (thread_state* each : threads_) each->yielded_to &= ~(1U << mine.id);
}

// Gives the processor to another thread, at no cost, because this one yields or cannot go on.
void scheduler::give_way() {
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
  give_way();
}

void scheduler::unblock(const void* on) {
  for (thread_state* each : threads_) {
    if (each->status == status::blocked && each->blocked_on == on) each->status = status::ready;
  }
}

// ---- Operations ----------------------------------------------------------------------------

unsigned scheduler::atomic_at(std::uintptr_t address, std::size_t size) {
  for (const thread_state* each : threads_) {
    if (each->arena.owns(address) && each->arena.state_of(address) != arena::state::live) {
      gyre::model::fail(each->arena.state_of(address) == arena::state::freed
                            ? "use of an atomic in freed memory"
                            : "use of an atomic outside of any block of the heap");
    }
  }
  return memory_.locate(address, size);
}

word scheduler::load(std::uintptr_t address, std::size_t size, std::memory_order order,
                     detail::where at) {
  const busy guard(*this);
  step();
  const unsigned atomic = atomic_at(address, size);
  const auto [oldest, latest] = memory_.readable(running_->sees, atomic, order);
  const unsigned back = stale_reads_left_ == 0 ? 0 : decisions_.decide(latest - oldest + 1);
  if (back != 0 && stale_reads_left_ != unlimited) --stale_reads_left_;
  const word value = memory_.value(atomic, latest - back);
  if (logging_) {
    log(at, "load " + describe(address) + " = " + to_string(value) +
                (back != 0 ? ", an old value," : "") + " " + name_of(order));
  }
  memory_.load(running_->sees, atomic, latest - back, order);
  moved();
  return value;
}

void scheduler::store(std::uintptr_t address, std::size_t size, word value, std::memory_order order,
                      detail::where at) {
  const busy guard(*this);
  step();
  const unsigned atomic = atomic_at(address, size);
  if (logging_)
    log(at, "store " + describe(address) + " := " + to_string(value) + " " + name_of(order));
  memory_.store(running_->sees, atomic, value, order);
  moved();
}

word scheduler::apply(std::uintptr_t address, std::size_t size, detail::update how, word operand,
                      std::memory_order order, detail::where at) {
  const busy guard(*this);
  step();
  const unsigned atomic = atomic_at(address, size);
  const word old = memory_.value(atomic, memory_.readable(running_->sees, atomic, order).latest);
  const word value = updated(how, old, operand, size);
  if (logging_) {
    log(at, std::string(name_of(how)) + " " + describe(address) + " = " + to_string(old) +
                " := " + to_string(value) + " " + name_of(order));
  }
  memory_.update(running_->sees, atomic, value, order);
  moved();
  return old;
}

// Succeeds on the newest value only. A failure is a load, which may return any visible value but
// the expected one; a weak one may also return that.
bool scheduler::compare_exchange(std::uintptr_t address, std::size_t size, word& expected,
                                 word desired, bool weak, std::memory_order success,
                                 std::memory_order failure, detail::where at) {
  const busy guard(*this);
  step();
  observer& mine = running_->sees;
  const unsigned atomic = atomic_at(address, size);
  const auto [oldest, latest] = memory_.readable(mine, atomic, failure);
  const bool matches = memory_.value(atomic, latest) == expected;

  std::vector<unsigned> failures;
  for (unsigned each = latest + 1; each-- > oldest;) {
    const bool newest_mismatch = each == latest && !matches;
    if (newest_mismatch || (stale_reads_left_ != 0 && memory_.value(atomic, each) != expected)) {
      failures.push_back(each);
    }
  }
  if (matches && weak && spurious_failures_left_ != 0) failures.push_back(latest);

  const unsigned taken =
      decisions_.decide(static_cast<unsigned>(failures.size()) + (matches ? 1 : 0));
  if (matches && taken == 0) {
    if (logging_) {
      log(at, "compare-exchange " + describe(address) + " = " + to_string(expected) +
                  " := " + to_string(desired) + " " + name_of(success));
    }
    memory_.update(mine, atomic, desired, success);
    moved();
    return true;
  }
  const unsigned read = failures[taken - (matches ? 1 : 0)];
  const bool spurious = matches && read == latest;
  if (spurious) {
    --spurious_failures_left_;
    mine.history = mix(mine.history, 1);
  } else if (read != latest && stale_reads_left_ != unlimited) {
    --stale_reads_left_;
  }
  expected = memory_.value(atomic, read);
  if (logging_) {
    log(at, "compare-exchange " + describe(address) + " = " + to_string(expected) + " fails" +
                (spurious         ? " for no reason"
                 : read != latest ? " on an old value"
                                  : "") +
                " " + name_of(failure));
  }
  memory_.load(mine, atomic, read, failure);
  moved();
  return false;
}

void scheduler::fence(fence_kind kind, std::memory_order order, detail::where at) {
  const busy guard(*this);
  step();
  if (logging_) {
    log(at, kind == fence_kind::light   ? "light fence"
            : kind == fence_kind::heavy ? "heavy fence"
                                        : std::string("fence ") + name_of(order));
  }
  switch (kind) {
    case fence_kind::ordinary: memory_.fence(running_->sees, order); break;
    case fence_kind::light: memory_.light_fence(running_->sees); break;
    case fence_kind::heavy: memory_.heavy_fence(running_->sees); break;
  }
  moved();
}

void scheduler::yield(detail::where at) {
  const busy guard(*this);
  count_step();
  thread_state& mine = *running_;
  if (logging_) log(at, "yield");
  mine.sees.history = mix(mine.sees.history, 2);
  memory_.catch_up(mine.sees);
  unsigned others = 0;
  for (const thread_state* each : eligible(running_)) others |= 1U << each->sees.id;
  moved();
  mine.yielded_to = others;
  mine.in_turn = true;
  give_way();
}

// Not a place to switch either: the new thread may go first at the next one.
unsigned scheduler::spawn(std::function<void()>* body, detail::where at) {
  const busy guard(*this);
  count_step();
  if (started_ == max_threads) gyre::model::fail("too many threads");
  observer& mine = running_->sees;
  const unsigned id = started_++;
  if (logging_) log(at, "starts thread " + std::to_string(id));
  thread_state& made = *threads_[id];
  made.sees.id = id;
  made.sees.now = mine.now;
  made.sees.now.ticks[id] = 1;
  mine.history = mix(mine.history, id);
  made.sees.history = mix(mine.history, 3);
  made.body = body;
  made.status = status::ready;
  made.yielded_to = 0;
  made.in_turn = true;
  made.fiber.start(&scheduler::enter_thread);
  running_->in_turn = false;
  moved();
  return id;
}

// Nor this: nothing that others do can change what it finds, only when.
void scheduler::join(unsigned id, detail::where at) {
  const busy guard(*this);
  count_step();
  thread_state& other = *threads_[id];
  while (other.status != status::finished) block(&other, "join");
  if (logging_) log(at, "joins thread " + std::to_string(id));
  running_->sees.now.join(other.sees.now);
  running_->sees.history = mix(running_->sees.history, other.sees.history);
  moved();
}

void scheduler::acquire(sync_object& from) {
  running_->sees.now.join(from.published);
  running_->sees.history = mix(running_->sees.history, from.history);
}

void scheduler::release(sync_object& to) { to.published.join(running_->sees.now); }

void scheduler::wake(const void* event, unsigned& pending, detail::where at) {
  const busy guard(*this);
  step();
  if (logging_) log(at, "wake");
  sync_object& woken = sync_objects_[event];
  release(woken);
  woken.history += running_->sees.history = mix(running_->sees.history, 4);
  ++pending;
  unblock(event);
  moved();
}

void scheduler::wait(const void* event, unsigned& pending, detail::where at) {
  const busy guard(*this);
  step();
  if (logging_) log(at, pending != 0 ? "wait returns at once" : "wait");
  while (pending == 0) block(event, "event::wait, and nobody is left to wake it");
  pending = 0;
  acquire(sync_objects_[event]);
  moved();
}

void scheduler::lock(const void* mutex) {
  const busy guard(*this);
  step();
  sync_object& locked = sync_objects_[mutex];
  while (locked.owner >= 0) block(mutex, "mutex::lock");
  if (logging_) log(in_mutex, "lock");
  locked.owner = static_cast<int>(running_->sees.id);
  acquire(locked);
  moved();
}

bool scheduler::try_lock(const void* mutex) {
  const busy guard(*this);
  step();
  sync_object& locked = sync_objects_[mutex];
  const bool free = locked.owner < 0;
  if (logging_) log(in_mutex, free ? "try_lock" : "try_lock fails");
  if (free) {
    locked.owner = static_cast<int>(running_->sees.id);
    acquire(locked);
  } else {
    running_->sees.history = mix(running_->sees.history, locked.history + 1);
  }
  moved();
  return free;
}

// No place to switch: until the next operation nobody can tell.
void scheduler::unlock(const void* mutex) {
  const busy guard(*this);
  sync_object& locked = sync_objects_[mutex];
  if (locked.owner != static_cast<int>(running_->sees.id)) {
    gyre::model::fail("unlock of a mutex that this thread has not locked");
  }
  if (logging_) log(in_mutex, "unlock");
  locked.owner = -1;
  locked.history = running_->sees.history = mix(running_->sees.history, 5);
  release(locked);
  unblock(mutex);
  moved();
}

void scheduler::construct(std::uintptr_t address, std::size_t size, word value) {
  const busy guard(*this);
  memory_.construct(running_->sees, address, size, value);
}

void scheduler::destroy(std::uintptr_t address) {
  const busy guard(*this);
  memory_.destroy(running_->sees, address);
}

void scheduler::access(std::uintptr_t address, std::size_t size, bool writes, const void* pc) {
  const busy guard(*this);
  for (const thread_state* each : threads_) {
    if (!each->arena.owns(address)) continue;
    for (const std::uintptr_t byte : {address, address + size - 1}) {
      if (each->arena.state_of(byte) == arena::state::live) continue;
      const bool freed = each->arena.state_of(byte) == arena::state::freed;
      gyre::model::fail(std::string(writes ? "write to" : "read of") +
                            (freed ? " freed memory" : " memory outside of any block of the heap"),
                        pc);
    }
  }
  memory_.access(running_->sees, address, size, writes, pc);
}

void* scheduler::allocate(std::size_t size, std::size_t alignment) {
  const busy guard(*this);
  return running_->arena.allocate(size, alignment);
}

bool scheduler::release(void* memory, const void* pc) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  for (thread_state* each : threads_) {
    if (!each->arena.owns(address)) continue;
    if (!in_scenario()) return true;  // of a schedule that is over
    const busy guard(*this);
    arena::block* const block = each->arena.find(address);
    if (block == nullptr) gyre::model::fail("delete of what new did not return", pc);
    if (!block->live) gyre::model::fail("double delete", pc);
    memory_.release(running_->sees, address, block->size, pc);
    each->arena.release(*block);
    return true;
  }
  return false;
}

// Mappings may be given back in parts; whatever lies in such a part has ended.
bool scheduler::unmap(void* memory, std::size_t size) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  for (thread_state* each : threads_) {
    if (!each->arena.owns(address)) continue;
    const busy guard(*this);
    memory_.release(running_->sees, address, size, nullptr);
    each->arena.release_part(address, size);
    return true;
  }
  return false;
}

void scheduler::name(std::uintptr_t address, const char* name) {
  const busy guard(*this);
  names_[address] = name;
}

void scheduler::outside(const std::function<void()>& function) {
  const busy guard(*this);
  function();
}

void scheduler::at_thread_exit(void (*function)(void*), void* object) {
  const busy guard(*this);
  running_->at_exit.push_back({.function = function, .object = object});
}

void scheduler::at_program_exit(void (*function)(void*), void* object) {
  const busy guard(*this);
  at_program_exit_.push_back({.function = function, .object = object});
}

}  // namespace gyre::model
