// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/timer_wheel.hpp>

#include <bit>
#include <limits>
#include <utility>

namespace gyre::detail {
namespace {

// If a slot that is overdue as a whole has at most this many timers, they are sorted at once
// instead of moved down.
constexpr std::size_t few_to_sort = 32;

// If a slot has at most this many timers, next_wakeup() searches for the earliest.
constexpr std::size_t few_to_search = 8;

constexpr std::uint64_t sign_bit = std::uint64_t{1} << 63;

steady_time deadline_of(const timer_link& link) noexcept {
  return static_cast<const timer_node&>(link).deadline();
}

void make_empty(timer_link& list) noexcept { list.next = list.prev = &list; }

bool is_empty(const timer_link& list) noexcept { return list.next == &list; }

bool has_at_most(std::size_t limit, const timer_link& list) noexcept {
  const timer_link* link = list.next;
  for (; limit > 0 && link != &list; --limit) link = link->next;
  return link == &list;
}

void append(timer_link& list, timer_link& link) noexcept {
  link.next = &list;
  link.prev = list.prev;
  list.prev->next = &link;
  list.prev = &link;
}

// Moves all timers of `source`, which is not empty, to the end of `list`.
void splice(timer_link& list, timer_link& source) noexcept {
  source.next->prev = list.prev;
  list.prev->next = source.next;
  source.prev->next = &list;
  list.prev = source.prev;
  make_empty(source);
}

bool is_sorted(const timer_link& list) noexcept {
  for (const timer_link* link = list.next; link->next != &list; link = link->next) {
    if (deadline_of(*link->next) < deadline_of(*link)) return false;
  }
  return true;
}

// Merges two chains, which end in null; of equal deadlines, those of `first` come first.
timer_link* merge(timer_link* first, timer_link* second) noexcept {
  timer_link head;
  timer_link* last = &head;
  while (first != nullptr && second != nullptr) {
    timer_link*& front = deadline_of(*second) < deadline_of(*first) ? second : first;
    last->next = front;
    last = std::exchange(front, front->next);
  }
  last->next = first != nullptr ? first : second;
  return head.next;
}

// Sorts a list that is not empty by deadline, and keeps the order of timers with equal deadlines: a
// bottom-up merge sort, in which sorted[n] is null or a chain of 2^n timers.
void sort(timer_link& list) noexcept {
  if (is_sorted(list)) return;
  std::array<timer_link*, std::numeric_limits<std::size_t>::digits> chains{};
  std::size_t in_use = 0;
  list.prev->next = nullptr;
  for (timer_link* rest = list.next; rest != nullptr;) {
    timer_link* chain = std::exchange(rest, rest->next);
    chain->next = nullptr;
    std::size_t n = 0;
    for (; chains[n] != nullptr; ++n) chain = merge(std::exchange(chains[n], nullptr), chain);
    chains[n] = chain;
    in_use = std::max(in_use, n + 1);
  }
  timer_link* chain = nullptr;
  for (std::size_t n = 0; n < in_use; ++n) chain = merge(chains[n], chain);

  timer_link* last = &list;
  for (; chain != nullptr; chain = chain->next) {
    last->next = chain;
    chain->prev = last;
    last = chain;
  }
  last->next = &list;
  list.prev = last;
}

}  // namespace

timer_wheel::timer_wheel(steady_time now) noexcept
    : last_tick_{ticks_ended_by(now)}, current_{last_tick_} {
  make_empty(due_timers_);
  make_empty(late_timers_);
  make_empty(delayed_timers_);
  for (timer_link& slot : slots_) make_empty(slot);
}

timer_wheel::~timer_wheel() {
  const auto unlink_all = [](timer_link& list) {
    for (timer_link* link = list.next; link != &list;) {
      timer_link* const next_link = link->next;
      link->next = link->prev = nullptr;
      link = next_link;
    }
  };
  unlink_all(due_timers_);
  unlink_all(late_timers_);
  unlink_all(delayed_timers_);
  for (timer_link& slot : slots_) unlink_all(slot);
}

bool timer_wheel::start(timer_node& timer, steady_time deadline) noexcept {
  const bool was_linked = cancel(timer);
  forget_next();
  admit(timer, deadline);
  ++size_;
  return was_linked;
}

void timer_wheel::start_after(timer_node& timer, duration delay) noexcept {
  cancel(timer);
  forget_next();
  timer.deadline_ = steady_time(delay);
  append(delayed_timers_, timer);
  ++size_;
}

void timer_wheel::begin_delays(steady_time now) noexcept {
  forget_next();
  timer_link* link = delayed_timers_.next;
  make_empty(delayed_timers_);
  while (link != &delayed_timers_) {
    auto& timer = static_cast<timer_node&>(*std::exchange(link, link->next));
    admit(timer, deadline_after(now, timer.deadline_.time_since_epoch()));
  }
}

// Puts a timer that is in no list into the list for `deadline`.
void timer_wheel::admit(timer_node& timer, steady_time deadline) noexcept {
  timer.deadline_ = deadline;
  const tick end = ticks_up_to(deadline);
  if (end <= last_tick_) {
    append(late_timers_, timer);
    quiet_until_ = 0;
  } else {
    append(slot_for(end), timer);
    quiet_until_ = std::min(quiet_until_, first_of(end));
  }
}

bool timer_wheel::cancel(timer_node& timer) noexcept {
  if (!timer.linked()) return false;
  forget_next();
  timer_link* const next_link = std::exchange(timer.next, nullptr);
  timer_link* const prev = std::exchange(timer.prev, nullptr);
  prev->next = next_link;
  next_link->prev = prev;
  --size_;
  // Both neighbours are the head of a list, so `timer` was the last timer of its list, which is a
  // slot unless it is due_timers_, late_timers_ or delayed_timers_.
  if (next_link == prev && next_link != &due_timers_ && next_link != &late_timers_ &&
      next_link != &delayed_timers_) {
    mark_empty(static_cast<std::size_t>(next_link - slots_.data()));
  }
  return true;
}

std::optional<steady_time> timer_wheel::find_next_wakeup() const noexcept {
  if (empty()) return std::nullopt;
  if (!is_empty(due_timers_) || !is_empty(late_timers_) || !is_empty(delayed_timers_))
    return end_of(last_tick_);
  const slot_span first = first_slot();
  const timer_link& slot = slots_[first.index];
  if (!has_at_most(few_to_search, slot)) return end_of(first.first);
  tick earliest_tick = first.last;
  for (const timer_link* link = slot.next; link != &slot; link = link->next) {
    earliest_tick = std::min(earliest_tick, ticks_up_to(deadline_of(*link)));
  }
  return end_of(earliest_tick);
}

// Returns the number of ticks that must have ended for `deadline` to have passed.
timer_wheel::tick timer_wheel::ticks_up_to(steady_time deadline) noexcept {
  const std::uint64_t ns = nanoseconds_since_min(deadline);
  return (ns >> tick_bits) + (ns % (1 << tick_bits) != 0 ? 1 : 0);
}

steady_time timer_wheel::end_of(tick point) noexcept {
  if (point > ticks_ended_by(steady_time::max())) return steady_time::max();
  return steady_time{
      std::chrono::nanoseconds{static_cast<std::int64_t>((point << tick_bits) ^ sign_bit)}};
}

// Returns the level of the slot for `point`, which is not before current_.
unsigned timer_wheel::level_of(tick point) const noexcept {
  const auto highest_bit = static_cast<unsigned>(std::bit_width((point ^ current_) | 1)) - 1;
  return highest_bit / digit_bits;
}

// Returns the first tick of the slot in which a timer for `point` waits.
timer_wheel::tick timer_wheel::first_of(tick point) const noexcept {
  return point & ~((tick{1} << level_of(point) * digit_bits) - 1);
}

// Returns the slot in which a timer for `point` waits, and marks it as occupied.
timer_link& timer_wheel::slot_for(tick point) noexcept {
  const unsigned level = level_of(point);
  const std::size_t slot =
      level * slots_per_level + (point >> level * digit_bits) % slots_per_level;
  occupied_[slot / 64] |= std::uint64_t{1} << slot % 64;
  occupied_words_ |= std::uint32_t{1} << slot / 64;
  return slots_[slot];
}

// Returns the earliest occupied slot and its ticks; a slot at the end of time if none is occupied.
timer_wheel::slot_span timer_wheel::first_slot() const noexcept {
  if (occupied_words_ == 0)
    return {slots_.size(), std::numeric_limits<tick>::max(), std::numeric_limits<tick>::max()};
  const auto word = static_cast<std::size_t>(std::countr_zero(occupied_words_));
  const auto slot = word * 64 + static_cast<std::size_t>(std::countr_zero(occupied_[word]));
  const std::size_t shift = slot / slots_per_level * digit_bits;
  const tick width = tick{1} << shift;
  const tick level_start = current_ & ~(width * slots_per_level - 1);
  const tick first = level_start + slot % slots_per_level * width;
  return {slot, first, first + width - 1};
}

void timer_wheel::mark_empty(std::size_t slot) noexcept {
  std::uint64_t& word = occupied_[slot / 64];
  word &= ~(std::uint64_t{1} << slot % 64);
  if (word == 0) occupied_words_ &= ~(std::uint32_t{1} << slot / 64);
}

// Admits the timers that were started too late, with the tick last_tick_ as their deadline.
void timer_wheel::admit_late() noexcept {
  if (!is_empty(late_timers_)) splice(slot_for(last_tick_), late_timers_);
}

// Advances, slot by slot, until timers are due. Returns whether timers are due.
bool timer_wheel::turn() noexcept {
  while (is_empty(due_timers_)) {
    const slot_span span = first_slot();
    if (span.first > last_tick_) {
      current_ = last_tick_;
      quiet_until_ = is_empty(late_timers_) ? span.first : 0;
      return false;
    }
    timer_link& slot = slots_[span.index];
    mark_empty(span.index);
    const bool is_tick = span.first == span.last;
    if (is_tick || (span.last <= last_tick_ && has_at_most(few_to_sort, slot))) {
      current_ = span.last;
      sort(slot);
      splice(due_timers_, slot);
    } else {
      current_ = span.first;
      move_down(slot);
    }
  }
  return true;
}

// Moves the timers of a slot that begins at current_ to the slots of lower levels.
void timer_wheel::move_down(timer_link& slot) noexcept {
  timer_link* link = slot.next;
  timer_link* link_ahead = slot.prev;
  make_empty(slot);
  while (link != &slot) {
    // Each step along a large list is a cache miss. A second walk, from the end to the beginning,
    // takes its misses at the same time, so that from the middle on the timers are in the cache.
    link_ahead = link_ahead->prev;
    __builtin_prefetch(link_ahead);
    timer_link* const next_link = link->next;
    append(slot_for(std::max(ticks_up_to(deadline_of(*link)), current_)), *link);
    link = next_link;
  }
}

timer_node& timer_wheel::take_due() noexcept {
  auto& timer = static_cast<timer_node&>(*due_timers_.next);
  due_timers_.next = timer.next;
  due_timers_.next->prev = &due_timers_;
  timer.next = timer.prev = nullptr;
  --size_;
  return timer;
}

}  // namespace gyre::detail
