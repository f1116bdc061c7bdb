// SPDX-License-Identifier: Apache-2.0
//
// The operations of the code under test.
#include <tests/model/scheduler.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gyre::model {
namespace {

// Keeps the lower bytes of a value, for loads and stores by value.
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
  if (value < 0x10000) return std::to_string(static_cast<unsigned>(value));
  std::string digits;
  for (; value != 0; value >>= 4) digits += "0123456789abcdef"[static_cast<unsigned>(value) & 15];
  return "0x" + std::string(digits.rbegin(), digits.rend());
}

constexpr std::source_location in_mutex{};

}  // namespace

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

// Succeeds only on the newest value. A failure is a load, which may return any visible value except
// the expected one; a weak exchange may fail with that value, too.
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
  yield_processor();
}

// No switch here: the new thread may go first at the next operation.
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

// No switch here: other threads cannot change the result of a join, only its time.
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

// No switch here: it would be unobservable before the next operation.
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
    if (!in_scenario()) return true;  // allocated in an earlier schedule
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

// Mappings may be unmapped in parts, which ends the lifetime of everything in them.
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
