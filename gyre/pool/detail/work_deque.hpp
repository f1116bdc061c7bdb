// SPDX-License-Identifier: Apache-2.0
// work_deque: the work-stealing deque of a worker, which works at one end without an atomic
// read-modify-write and, while thieves are rare, without a fence of the processor; thieves take
// half of the rest from the other end. Source: the THE protocol of Frigo, Leiserson and Randall,
// "The implementation of the Cilk-5 multithreaded language", 1998, with an asymmetric fence in
// place of its two full ones while thieves are rare.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/fence.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <type_traits>

namespace gyre::detail {

/// A deque of one-word elements between one owner and many thieves; T{} stands for "none" and is
/// never in it. `Smallest` is how many elements its first block holds, a power of two. Owns no
/// element: its destructor forgets those that are left.
///
/// The owner takes the element at `bottom - 1` by lowering `bottom_` and then looking at `top_`; a
/// thief takes those before `top + n` by raising `top_` and then looking at `bottom_` (Dekker). The
/// fences between see to it that at least one of two that want the same element notices: the owner
/// then looks under the thieves' lock, a thief takes less. How far the owner may overwrite
/// (`limit_`) it learns under the lock only, when no thief is copying.
///
/// The fence of the first thief is a heavy one, a system call that interrupts the owner. With it
/// the thief asks the owner for full fences, so that those who come soon after need no other than
/// that themselves. When `Patience` such fences have met no thief the owner goes back to light
/// ones: the two ways then have cost about the same (Karlin et al., 1991).
///
/// Thread-safety: members marked as the owner's by one thread, all others by any.
template <class T, std::size_t Smallest = 256, unsigned Patience = full_fences_per_heavy_one>
class work_deque {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) == 8 && std::has_single_bit(Smallest));

 public:
  /// A thief takes at most so many elements at once.
  static constexpr std::size_t max_stolen = 128;

  /// An empty deque; allocates with the first push().
  work_deque() noexcept = default;
  ~work_deque() { delete[] cells_; }

  /// Owner: adds `element` as the newest. False, and nothing is added, only when the deque must
  /// grow and there is no memory. One to two nanoseconds; now and then, amortised over half of the
  /// deque's capacity, the thieves' lock and an allocation.
  [[nodiscard]] bool push(T element) noexcept {
    assert(element != T{} && "would be taken for none");
    if (push_if_room(element)) [[likely]]
      return true;
    return room_for(1) != 0 && push_if_room(element);
  }

  /// Owner: as push(), but false if the deque must grow, or learn that thieves have made room.
  [[nodiscard]] bool push_if_room(T element) noexcept {
    const position bottom = own_bottom();
    if (bottom == limit_) [[unlikely]]
      return false;
    cell(bottom) = element;
    publish(bottom + 1);
    return true;
  }

  /// Owner: takes the newest element; T{} when there is none. One to two nanoseconds, some ten
  /// while thieves come often; the thieves' lock when the last elements are contended, or thieves
  /// have emptied the deque.
  [[nodiscard]] T pop() noexcept {
    const position newest = own_bottom() - 1;
    if (newest < floor_) return leave_empty();
    publish(newest);
    asymmetric_light_fence();
    // relaxed: ordered by the fences; what is taken was put there by this thread.
    if (top_.load(std::memory_order_relaxed) > newest) [[unlikely]]
      return pop_with_thieves(newest);
    return cell(newest);
  }

  /// Owner: takes the newest element if it is `element`; false if thieves have it or another lies
  /// above it. The cost of pop().
  [[nodiscard]] bool pop_if(T element) noexcept {
    const position newest = own_bottom() - 1;
    // The cell still shows an element that was stolen; the top tells.
    if (newest < floor_ || cell(newest) != element) return false;
    publish(newest);
    asymmetric_light_fence();
    // relaxed: ordered by the fences.
    if (top_.load(std::memory_order_relaxed) > newest) [[unlikely]]
      return pop_with_thieves(newest) != T{};
    return true;
  }

  /// Owner: whether a thief has come in vain, since the owner took what it wanted, after the last
  /// call.
  [[nodiscard]] bool take_contention() noexcept {
    if (!contended_) [[likely]]
      return false;
    contended_ = false;
    return true;
  }

  /// How many elements there are; an estimate while threads add or take some. Two loads.
  [[nodiscard]] std::size_t size() const noexcept {
    return static_cast<std::size_t>(std::max<position>(estimated_size(), 0));
  }

  /// Owner: how many elements fit into the memory it holds.
  [[nodiscard]] std::size_t capacity() const noexcept {
    return static_cast<std::size_t>(capacity_);
  }

  /// Takes the older half of the elements, at least one and at most `max_stolen`; returns the
  /// oldest and puts the others into `thief`, which the caller owns and which is not this deque, so
  /// that thief.pop() gives the oldest first. T{} if there are none, another thief is here, or the
  /// owner was faster. Two loads when there are none, else a full fence, or a heavy one when the
  /// last theft was long ago.
  [[nodiscard]] T steal_into(work_deque& thief) noexcept {
    assert(this != &thief);
    const position seen = estimated_size();
    if (seen <= 0) return T{};
    // Before this deque is locked: two thieves that rob each other must not wait for each other.
    const position room = thief.room_for(share_of(seen) - 1);
    const std::unique_lock lock(lock_, std::try_to_lock);
    if (!lock.owns_lock()) return T{};
    const position taken = claim(1 + room);
    if (taken == 0) return T{};
    const position end = locked_top();
    position target = thief.own_bottom();
    for (position source = end - 1; source > end - taken; --source) {
      thief.cell(target++) = cell(source);
    }
    thief.publish(target);
    return cell(end - taken);
  }

  /// Takes the oldest element only; also for the owner. Otherwise as steal_into().
  [[nodiscard]] T steal_oldest() noexcept {
    if (estimated_size() <= 0) return T{};
    const std::unique_lock lock(lock_, std::try_to_lock);
    if (!lock.owns_lock() || claim(1) == 0) return T{};
    return cell(locked_top() - 1);
  }

 private:
  using position = std::int64_t;  // of an element, counted from the first one ever; signed, as the
                                  // bottom may for a moment be one less than the top

  // The thieves' wish in `top_`, in which the owner finds it without another look.
  static constexpr position full_fences = position{1} << 62;

  /// A deque that is found empty and can hold more than this gives its memory back.
  static constexpr position kept_capacity = 16 * static_cast<position>(Smallest);

  T& cell(position index) noexcept { return cells_[index & (capacity_ - 1)]; }

  // relaxed: written by the owner only, who calls this.
  position own_bottom() const noexcept { return bottom_.load(std::memory_order_relaxed); }

  void publish(position bottom) noexcept {
    // release: pairs with the acquire in claim(); a thief that sees this bottom sees the elements
    // below it and the memory they point to. Also when an element is taken, as the next store of
    // the bottom may be all that a thief sees.
    bottom_.store(bottom, std::memory_order_release);
  }

  position estimated_size() const noexcept {
    // relaxed: a hint.
    return bottom_.load(std::memory_order_relaxed) -
           without_wish(top_.load(std::memory_order_relaxed));
  }

  static constexpr position without_wish(position top) noexcept { return top & ~full_fences; }
  // relaxed: changes under the lock only, which the caller holds.
  position locked_top() const noexcept {
    return without_wish(top_.load(std::memory_order_relaxed));
  }

  static position share_of(position size) noexcept {
    return std::min((size + 1) / 2, static_cast<position>(max_stolen));
  }

  /// Thief, under the lock: moves the top over at most `max_elements` of the oldest elements; how
  /// many.
  position claim(position max_elements) noexcept {
    // relaxed, until the fence has ordered it: the top changes under the lock only, and of the
    // bottom this is a first guess.
    const position before = top_.load(std::memory_order_relaxed);
    const position top = without_wish(before);
    const position wanted =
        std::min(max_elements, share_of(bottom_.load(std::memory_order_relaxed) - top));
    if (wanted <= 0) return 0;
    top_.store((top + wanted) | full_fences, std::memory_order_relaxed);
    before == top ? asymmetric_heavy_fence() : full_fence();
    // acquire: pairs with the release in publish().
    const position bottom = bottom_.load(std::memory_order_acquire);
    if (bottom >= top + wanted) [[likely]]
      return wanted;
    const position taken = std::max<position>(bottom - top, 0);
    // relaxed: an owner that overlooks it asks under the lock.
    top_.store((top + taken) | full_fences, std::memory_order_relaxed);
    return taken;
  }

  /// Owner, which has lowered the bottom to `newest`: when a thief is there, or was lately.
  [[gnu::noinline]] T pop_with_thieves(position newest) noexcept {
    full_fence();
    const position seen = top_.load(std::memory_order_relaxed);  // relaxed: ordered by the fence
    if (without_wish(seen) > newest) return pop_contended(newest);
    if (seen != top_at_fence_) {
      top_at_fence_ = seen;
      fences_ = 0;
    } else if (++fences_ >= Patience && lock_.try_lock()) {
      // relaxed: thieves read it under the lock.
      top_.store(locked_top(), std::memory_order_relaxed);
      lock_.unlock();
    }
    return cell(newest);
  }

  /// Owner, which has lowered the bottom to `newest`: decides with the thieves out of the way.
  T pop_contended(position newest) noexcept {
    {
      const std::lock_guard lock(lock_);
      learn_top();
    }
    if (floor_ <= newest) {
      contended_ = true;
      return cell(newest);
    }
    publish(newest + 1);
    return leave_empty();
  }

  /// Owner, under the lock: no thief needs the elements before the top any more.
  void learn_top() noexcept {
    floor_ = locked_top();
    limit_ = floor_ + capacity_;
  }

  /// Owner: how many elements, up to `count`, can be added with no further check. May grow.
  position room_for(position count) noexcept {
    if (limit_ - own_bottom() >= count) [[likely]]
      return count;
    return make_room(count);
  }

  [[gnu::noinline]] position make_room(position count) noexcept {
    const std::lock_guard lock(lock_);
    learn_top();
    const position size = own_bottom() - floor_;
    // Twice the size, so that this is seldom called.
    if (2 * size + count > capacity_) reallocate(2 * size + count);
    return std::min(count, limit_ - own_bottom());
  }

  /// Owner, under the lock. Without memory all stays as it is.
  void reallocate(position min_capacity) noexcept {
    const std::size_t capacity =
        std::max(Smallest, std::bit_ceil(static_cast<std::size_t>(min_capacity)));
    T* cells = new (std::nothrow) T[capacity];
    if (cells == nullptr) return;
    for (position index = floor_; index < own_bottom(); ++index) {
      cells[static_cast<std::size_t>(index) & (capacity - 1)] = cell(index);
    }
    delete[] cells_;
    cells_ = cells;
    capacity_ = static_cast<position>(capacity);
    limit_ = floor_ + capacity_;
  }

  T leave_empty() noexcept {
    if (capacity_ > kept_capacity) [[unlikely]]
      give_memory_back();
    return T{};
  }

  /// Owner, whose deque is empty.
  [[gnu::noinline]] void give_memory_back() noexcept {
    const std::lock_guard lock(lock_);
    delete[] cells_;
    cells_ = nullptr;
    capacity_ = 0;
    learn_top();
  }

  // Written by the owner.
  alignas(false_sharing_range) gyre::detail::atomic<position> bottom_{0};  // after the newest
  position floor_ = 0;     // the top as last seen under the lock
  position limit_ = 0;     // the bottom may rise to here
  position capacity_ = 0;  // a power of two, or 0; as cells_, changed under the lock
  T* cells_ = nullptr;
  position top_at_fence_ = 0;  // as seen after the last full fence
  unsigned fences_ = 0;        // full ones since it changed
  bool contended_ = false;

  // Written by thieves.
  // The oldest element's; with the wish for full fences.
  alignas(false_sharing_range) gyre::detail::atomic<position> top_{0};
  spin_lock lock_;  // the thieves': held for the time of a fence and a short copy
};

}  // namespace gyre::detail
