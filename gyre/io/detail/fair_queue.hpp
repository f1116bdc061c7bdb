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
  void reserve(std::size_t handles) { entries_.reserve(handles + vacated_entries_); }
  /// Returns the number of entries, including those of handles that have left the queue.
  std::size_t size() const noexcept { return entries_.size(); }
  void push(handle& target) noexcept { target.queue_index = entries_.push(&target); }
  /// Removes and returns the first entry; null if its handle has left the queue.
  handle* pop() noexcept {
    handle* const first = entries_.pop();
    if (first == nullptr) --vacated_entries_;
    return first;
  }
  /// Returns whether the handle was in this queue.
  bool remove(const handle& target) noexcept {
    const std::uint32_t number = target.queue_index;
    if (!entries_.has(number) || entries_[number] != &target) return false;
    entries_[number] = nullptr;
    ++vacated_entries_;
    return true;
  }

 private:
  gyre::detail::reserved_ring<handle*> entries_;
  std::size_t vacated_entries_ = 0;
};

/// The handles that are ready and wait for a visit of the loop, in two queues: *new* handles, which
/// are served first, and *old* handles, which have had a visit and have more to do. A *round* is
/// one rotation of the old handles, in which each gets a *share*.
///
/// A handle that becomes ready is new, unless its last visit, at most a few rounds ago, was heavy,
/// or its visits of this round have used a share: then it waits after the old handles. So a quiet
/// connection does not wait for busy ones, but cannot use more than its share before they are
/// served.
///
/// Thread-safety: none.
class fair_queue {
 public:
  /// The bytes of a round, which are divided among the ready handles, within the bounds of a share.
  /// The lower bound keeps system calls large: a loop that reads in small parts takes up to twice
  /// the time for a byte. The upper bound limits a visit.
  static constexpr std::size_t bytes_of_round = std::size_t{32} << 20;
  static constexpr std::size_t min_share = std::size_t{256} << 10;
  static constexpr std::size_t max_share = std::size_t{1} << 20;
  /// The bytes of a turn, after which the loop looks for new handles before the round continues: as
  /// many as a loop with visits of 64 KiB moves in a rotation of the ready handles, within these
  /// bounds.
  static constexpr std::size_t bytes_of_turn_each = std::size_t{64} << 10;
  static constexpr std::size_t min_turn = std::size_t{2} << 20;
  static constexpr std::size_t max_turn = std::size_t{4} << 20;
  /// The share of a new handle is that of an old one, so that its message is not split. New handles
  /// that come after `min_turn` bytes divide these bytes, so that many new handles with large
  /// messages do not delay those with small ones.
  static constexpr std::size_t bytes_of_new = std::size_t{4} << 20;
  static constexpr std::size_t min_share_of_new = std::size_t{64} << 10;
  /// A visit that uses at least this many bytes is heavy; the handle is not new again for some
  /// rounds.
  static constexpr std::size_t heavy_use = std::size_t{16} << 10;
  static constexpr std::uint16_t rounds_of_memory = 16;
  /// The cost of a request in bytes, besides the bytes that it moves, so that small requests are
  /// not free.
  static constexpr std::size_t cost_of_request = 1024;

  /// Makes room for `handles` in all. Throws std::bad_alloc.
  void reserve(std::size_t handles) {
    new_handles_.reserve(handles);
    old_handles_.reserve(handles);
  }
  /// Returns the number of entries, including those of handles that have left the queues.
  std::size_t size() const noexcept { return new_handles_.size() + old_handles_.size(); }

  /// Begins a turn, and decides on its bytes and on the shares. `reports`: how many handles are
  /// ready besides the waiting ones.
  void begin_turn(std::size_t reports) noexcept {
    const std::size_t handle_count = std::max<std::size_t>(size() + reports, 1);
    share_ = std::clamp(bytes_of_round / handle_count, min_share, max_share);
    late_share_of_new_ = std::clamp(bytes_of_new / handle_count, min_share_of_new, max_share);
    turn_ = std::clamp(bytes_of_turn_each * handle_count, min_turn, max_turn);
    moved_bytes_ = 0;
  }
  /// Returns the bytes that a visit of an old handle, or of a new one, may move in each direction.
  std::size_t share() const noexcept { return share_; }
  std::size_t share_of_new() const noexcept {
    return moved_bytes_ < min_turn ? share_ : late_share_of_new_;
  }
  /// Counts the cost of a visit of any handle for this turn.
  void note_moved(std::size_t bytes) noexcept { moved_bytes_ += bytes; }
  /// Whether to look for new handles before the round continues.
  bool is_turn_over() const noexcept { return moved_bytes_ >= turn_; }

  /// Returns whether a handle that is not in a queue would be new.
  bool is_new(const handle& target) const noexcept {
    const usage last_usage = usage::of(target);
    const std::uint16_t age = rounds_since(last_usage);
    return last_usage.was_heavy ? age > rounds_of_memory : age > 0 || last_usage.bytes() < share_;
  }
  /// Counts the cost of a visit of a handle that is not put into a queue after it.
  void note_used(handle& target, std::size_t bytes) noexcept {
    const usage last_usage = usage::of(target);
    const std::size_t old_bytes = rounds_since(last_usage) == 0 ? last_usage.bytes() : 0;
    usage::store(target, round_, bytes >= heavy_use, old_bytes + bytes);
  }
  /// Adds a handle that is not in a queue yet.
  void push(handle& target) noexcept {
    (is_new(target) ? new_handles_ : old_handles_).push(target);
  }
  /// Adds a handle that has more to do after a visit.
  void push_old(handle& target) noexcept { old_handles_.push(target); }
  /// Removes a handle from the queues.
  void remove(const handle& target) noexcept {
    if (!new_handles_.remove(target)) old_handles_.remove(target);
  }

  std::size_t count_of_new() const noexcept { return new_handles_.size(); }
  /// Removes and returns the next new handle; null if it has left the queue.
  handle* pop_new() noexcept { return pop_from(new_handles_); }
  /// Begins the next round if none is in progress and old handles wait. Returns how many handles
  /// are left in the round. A turn without old handles is no round: otherwise idle turns would make
  /// busy handles new.
  std::size_t begin_round() noexcept {
    if (left_in_round_ == 0 && old_handles_.size() > 0) {
      ++round_;
      left_in_round_ = old_handles_.size();
    }
    return left_in_round_;
  }
  /// Removes and returns the next old handle of the round; null if it has left the queue.
  handle* pop_old() noexcept {
    --left_in_round_;
    return pop_from(old_handles_);
  }

 private:
  // The bytes that a handle used in a round. They are stored in the handle's queue_index while it
  // is not in a queue.
  struct usage {
    static constexpr std::size_t unit = 64;
    static constexpr std::size_t max_units = (std::size_t{1} << 15) - 1;
    static_assert(max_units * unit >= max_share);

    std::uint16_t round;
    bool was_heavy;  // whether the last visit was heavy
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

  // The count is modulo 2^16: after a pause, a handle is mistaken for a busy one in one of 4000
  // cases.
  std::uint16_t rounds_since(usage last_usage) const noexcept {
    return static_cast<std::uint16_t>(round_ - last_usage.round);
  }
  handle* pop_from(handle_queue& queue) const noexcept {
    handle* const front = queue.pop();
    if (front != nullptr) usage::store(*front, round_, false, 0);
    return front;
  }

  handle_queue new_handles_;
  handle_queue old_handles_;
  std::size_t left_in_round_ = 0;
  std::size_t share_ = max_share;
  std::size_t late_share_of_new_ = max_share;
  std::size_t turn_ = min_turn;
  std::size_t moved_bytes_ = 0;  // the bytes that were moved in this turn
  std::uint16_t round_ = 0;
};

}  // namespace gyre::io::detail
