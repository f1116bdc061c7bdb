// SPDX-License-Identifier: Apache-2.0
// fair_queue: the order in which ready handles are served, and the share of each: deficit round
// robin (Shreedhar and Varghese, 1995) with new flows first (RFC 8290, fq_codel).
#pragma once

#include <gyre/base/detail/reserved_ring.hpp>
#include <gyre/io/request.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gyre::io::detail {

/// A first-in, first-out queue of handles that can leave it in any order.
///
/// Thread-safety: none.
/// Complexity: each operation constant; reserve() is amortised.
class handle_queue {
 public:
  /// Makes room for `handles` in all. Throws std::bad_alloc.
  void reserve(std::size_t handles) { entries_.reserve(handles + vacated_); }
  /// Entries, with those of handles that have left.
  std::size_t size() const noexcept { return entries_.size(); }
  void push(handle& target) noexcept { target.queue_index = entries_.push(&target); }
  /// The first entry; null if its handle has left.
  handle* pop() noexcept {
    handle* const first = entries_.pop();
    if (first == nullptr) --vacated_;
    return first;
  }
  /// Returns whether the handle was in this queue.
  bool remove(const handle& target) noexcept {
    const std::uint32_t number = target.queue_index;
    if (!entries_.has(number) || entries_[number] != &target) return false;
    entries_[number] = nullptr;
    ++vacated_;
    return true;
  }

 private:
  gyre::detail::reserved_ring<handle*> entries_;
  std::size_t vacated_ = 0;
};

/// The handles that are ready and wait for a visit of the loop, in two queues: *new* ones, which
/// are served first, and *old* ones, which have had a visit and want more. A *round* is one
/// rotation of the old ones, in which each gets a *share*.
///
/// A handle that becomes ready is new, unless its last visit, a few rounds ago at most, was heavy,
/// or its visits of this round have used a share: then it waits after the old ones. So a quiet
/// connection does not wait for busy ones, and yet gets no more than its share before they do.
///
/// Thread-safety: none.
class fair_queue {
 public:
  /// The bytes of a round, of which each ready handle gets its part, within the bounds of a share:
  /// the lower one keeps system calls large, as a loop that reads in small parts takes up to twice
  /// the time for a byte; the upper one bounds a visit.
  static constexpr std::size_t bytes_of_round = std::size_t{32} << 20;
  static constexpr std::size_t min_share = std::size_t{256} << 10;
  static constexpr std::size_t max_share = std::size_t{1} << 20;
  /// The bytes of a turn, after which new handles are looked for before the round continues: as
  /// many as a loop with visits of 64 KiB moves in a rotation of the ready ones, within these
  /// bounds.
  static constexpr std::size_t bytes_of_turn_each = std::size_t{64} << 10;
  static constexpr std::size_t min_turn = std::size_t{2} << 20;
  static constexpr std::size_t max_turn = std::size_t{4} << 20;
  /// The share of a new handle is that of an old one, so that its message is not cut in pieces. New
  /// handles that come after `min_turn` get a part of these bytes, so that many new ones with
  /// large messages do not delay those with small ones.
  static constexpr std::size_t bytes_of_new = std::size_t{4} << 20;
  static constexpr std::size_t min_share_of_new = std::size_t{64} << 10;
  /// A visit that uses so many bytes is heavy, which is remembered for some rounds.
  static constexpr std::size_t heavy_use = std::size_t{16} << 10;
  static constexpr std::uint16_t rounds_of_memory = 16;
  /// The cost of a request besides its bytes, so that small ones are not free.
  static constexpr std::size_t cost_of_request = 1024;

  /// Makes room for `handles` in all. Throws std::bad_alloc.
  void reserve(std::size_t handles) {
    new_.reserve(handles);
    old_.reserve(handles);
  }
  /// The number of entries, with those of handles that have left.
  std::size_t size() const noexcept { return new_.size() + old_.size(); }

  /// Begins a turn, and decides on its bytes and on the shares. `reports`: how many handles are
  /// ready besides the waiting ones.
  void begin_turn(std::size_t reports) noexcept {
    const std::size_t ready = std::max<std::size_t>(size() + reports, 1);
    share_ = std::clamp(bytes_of_round / ready, min_share, max_share);
    late_share_of_new_ = std::clamp(bytes_of_new / ready, min_share_of_new, max_share);
    turn_ = std::clamp(bytes_of_turn_each * ready, min_turn, max_turn);
    moved_ = 0;
  }
  /// Bytes that a visit of an old handle, or of a new one, may move in each direction.
  std::size_t share() const noexcept { return share_; }
  std::size_t share_of_new() const noexcept {
    return moved_ < min_turn ? share_ : late_share_of_new_;
  }
  /// Counts what a visit of any handle has cost.
  void note_moved(std::size_t bytes) noexcept { moved_ += bytes; }
  /// Whether to look for new handles before the round continues.
  bool is_turn_over() const noexcept { return moved_ >= turn_; }

  /// Whether a handle that does not wait would be new.
  bool is_new(const handle& target) const noexcept {
    const usage recent = usage::of(target);
    const std::uint16_t age = rounds_since(recent);
    return recent.was_heavy ? age > rounds_of_memory : age > 0 || recent.bytes() < share_;
  }
  /// Counts what a visit of a handle has cost that does not wait after it.
  void note_used(handle& target, std::size_t bytes) noexcept {
    const usage recent = usage::of(target);
    const std::size_t before = rounds_since(recent) == 0 ? recent.bytes() : 0;
    usage::store(target, round_, bytes >= heavy_use, before + bytes);
  }
  /// Adds a handle that does not wait yet.
  void push(handle& target) noexcept { (is_new(target) ? new_ : old_).push(target); }
  /// Adds a handle that wants more after a visit.
  void push_old(handle& target) noexcept { old_.push(target); }
  /// Removes a handle that waits.
  void remove(const handle& target) noexcept {
    if (!new_.remove(target)) old_.remove(target);
  }

  std::size_t count_of_new() const noexcept { return new_.size(); }
  /// The next new handle; null if it has left.
  handle* pop_new() noexcept { return pop_from(new_); }
  /// Begins the next round if none is under way and old ones wait. Returns how many are left in it.
  /// A turn without old ones is no round: idle turns would make busy handles new.
  std::size_t begin_round() noexcept {
    if (left_in_round_ == 0 && old_.size() > 0) {
      ++round_;
      left_in_round_ = old_.size();
    }
    return left_in_round_;
  }
  /// The next old handle of the round; null if it has left.
  handle* pop_old() noexcept {
    --left_in_round_;
    return pop_from(old_);
  }

 private:
  // The bytes that a handle used in a round. They are kept in its queue_index while it does not
  // wait.
  struct usage {
    static constexpr std::size_t unit = 64;
    static constexpr std::size_t max_units = (std::size_t{1} << 15) - 1;
    static_assert(max_units * unit >= max_share);

    std::uint16_t round;
    bool was_heavy;  // in the last visit
    std::uint16_t units;

    static usage of(const handle& target) noexcept {
      const std::uint32_t all = target.queue_index;
      return {static_cast<std::uint16_t>(all >> 16), (all >> 15 & 1) != 0,
              static_cast<std::uint16_t>(all & max_units)};
    }
    static void store(handle& target, std::uint16_t round, bool was_heavy,
                      std::size_t bytes) noexcept {
      const std::size_t units = std::min((bytes + unit - 1) / unit, max_units);
      target.queue_index = std::uint32_t{round} << 16 | (was_heavy ? std::uint32_t{1} << 15 : 0u) |
                           static_cast<std::uint32_t>(units);
    }
    std::size_t bytes() const noexcept { return units * unit; }
  };

  // Modulo 2^16: after a pause, a handle is mistaken for a busy one in one of 4000 cases.
  std::uint16_t rounds_since(usage recent) const noexcept {
    return static_cast<std::uint16_t>(round_ - recent.round);
  }
  handle* pop_from(handle_queue& queue) const noexcept {
    handle* const next = queue.pop();
    if (next != nullptr) usage::store(*next, round_, false, 0);
    return next;
  }

  handle_queue new_;
  handle_queue old_;
  std::size_t left_in_round_ = 0;
  std::size_t share_ = max_share;
  std::size_t late_share_of_new_ = max_share;
  std::size_t turn_ = min_turn;
  std::size_t moved_ = 0;  // in this turn
  std::uint16_t round_ = 0;
};

}  // namespace gyre::io::detail
