// SPDX-License-Identifier: Apache-2.0
// work_deque: the work-stealing deque of a worker. The owner works at one end without an atomic
// read-modify-write and, while thieves are rare, without a hardware fence. Thieves take half of the
// elements from the other end. Source: the THE protocol of Frigo, Leiserson and Randall, "The
// implementation of the Cilk-5 multithreaded language", 1998, with an asymmetric fence instead of
// its two full fences while thieves are rare.
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

/// A deque of one-word elements with one owner and many thieves. T{} means "none" and must not be
/// added. `InitialCapacity` is the capacity of its first block, a power of two. The deque does not
/// own its elements: its destructor drops the remaining ones.
///
/// The owner takes the element at `bottom - 1` by lowering `bottom_` and then reading `top_`; a
/// thief takes the elements before `top + n` by raising `top_` and then reading `bottom_` (Dekker).
/// The fences in between ensure that if two threads want the same element, at least one notices:
/// the owner then checks again under the thieves' lock, or the thief takes fewer elements. The
/// owner may overwrite cells up to `limit_`, which it updates only under the lock, when no thief
/// copies.
///
/// The first thief uses a heavy fence, a system call that interrupts the owner. The thief also
/// requests full fences from the owner, so that thieves that come soon after need only a full
/// fence. After `QuietFences` full fences without a thief, the owner returns to light fences: by
/// then, both kinds have cost about the same (Karlin et al., 1991).
///
/// Thread-safety: functions marked "Owner" are called by one thread, all others by any thread.
template <class T, std::size_t InitialCapacity = 256,
          unsigned QuietFences = full_fences_per_heavy_one>
class work_deque {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) == 8 &&
                std::has_single_bit(InitialCapacity));

 public:
  /// The maximum number of elements that a thief takes at once.
  static constexpr std::size_t max_stolen = 128;

  /// Constructs an empty deque; the first push() allocates its memory.
  work_deque() noexcept = default;
  ~work_deque() { delete[] cells_; }

  /// Owner: adds `element` as the newest. Returns false, and adds nothing, only if the deque must
  /// grow and memory is exhausted. Takes one to two nanoseconds; amortised over half of the deque's
  /// capacity, the thieves' lock and an allocation.
  [[nodiscard]] bool push(T element) noexcept {
    assert(element != T{} && "would be taken for none");
    if (try_push(element)) [[likely]]
      return true;
    return reserve_cells(1) != 0 && try_push(element);
  }

  /// Owner: like push(), but also returns false if the deque must grow, or must check for cells
  /// that thieves have emptied.
  [[nodiscard]] bool try_push(T element) noexcept {
    const position bottom = own_bottom();
    if (bottom == limit_) [[unlikely]]
      return false;
    cell(bottom) = element;
    publish(bottom + 1);
    return true;
  }

  /// Owner: takes the newest element; T{} if there is none. Takes one to two nanoseconds, some ten
  /// while thieves come often; takes the thieves' lock if the last elements are contended, or
  /// thieves have emptied the deque.
  [[nodiscard]] T pop() noexcept {
    const position newest = own_bottom() - 1;
    if (newest < floor_) return return_none();
    publish(newest);
    asymmetric_light_fence();
    // relaxed: the fences order the top; this thread itself has written the element.
    if (top_.load(std::memory_order_relaxed) > newest) [[unlikely]]
      return pop_with_thieves(newest);
    return cell(newest);
  }

  /// Owner: takes the newest element if it is `element`. Returns false if a thief has taken it, or
  /// if a newer element was added. Costs the same as pop().
  [[nodiscard]] bool pop_if(T element) noexcept {
    const position newest = own_bottom() - 1;
    // An equal cell does not prove that the element is still there: a stolen one stays in its cell.
    // `top_` tells it below.
    if (newest < floor_ || cell(newest) != element) return false;
    publish(newest);
    asymmetric_light_fence();
    // relaxed: the fences order the top.
    if (top_.load(std::memory_order_relaxed) > newest) [[unlikely]]
      return pop_with_thieves(newest) != T{};
    return true;
  }

  /// Owner: whether, since the last call, a thief has failed because the owner took the element
  /// that the thief wanted.
  [[nodiscard]] bool take_contention() noexcept {
    if (!has_contention_) [[likely]]
      return false;
    has_contention_ = false;
    return true;
  }

  /// The number of elements; an estimate while other threads add or take some. Costs two loads.
  [[nodiscard]] std::size_t size() const noexcept {
    return static_cast<std::size_t>(std::max<position>(estimated_size(), 0));
  }

  /// Owner: the number of elements that fit into the allocated memory.
  [[nodiscard]] std::size_t capacity() const noexcept {
    return static_cast<std::size_t>(capacity_);
  }

  /// Takes the older half of the elements, at least one and at most `max_stolen`. Returns the
  /// oldest and moves the others to `thief`, so that thief.pop() returns the oldest first. The
  /// caller must own `thief`, which must be another deque. Returns T{} if there are none, if
  /// another thief holds the lock, or if the owner was faster. Costs two loads if there are none,
  /// otherwise a full fence, or a heavy one if the last theft was long ago.
  [[nodiscard]] T steal_into(work_deque& thief) noexcept {
    assert(this != &thief);
    const position size = estimated_size();
    if (size <= 0) return T{};
    // Reserves before it locks this deque, so that two thieves that steal from each other do not
    // wait for each other.
    const position cells = thief.reserve_cells(share_of(size) - 1);
    const std::unique_lock lock(lock_, std::try_to_lock);
    if (!lock.owns_lock()) return T{};
    const position count = claim(1 + cells);
    if (count == 0) return T{};
    const position end = locked_top();
    position target = thief.own_bottom();
    for (position source = end - 1; source > end - count; --source) {
      thief.cell(target++) = cell(source);
    }
    thief.publish(target);
    return cell(end - count);
  }

  /// Takes only the oldest element; may also be called by the owner. Otherwise like steal_into().
  [[nodiscard]] T steal_oldest() noexcept {
    if (estimated_size() <= 0) return T{};
    const std::unique_lock lock(lock_, std::try_to_lock);
    if (!lock.owns_lock() || claim(1) == 0) return T{};
    return cell(locked_top() - 1);
  }

 private:
  // The number of an element, counted from the first one ever pushed. Signed, because the bottom
  // may briefly be one less than the top.
  using position = std::int64_t;

  // A flag in `top_`, a word that the owner reads anyway, by which thieves request full fences.
  static constexpr position fence_request = position{1} << 62;

  /// An empty deque that can hold more than this frees its memory.
  static constexpr position kept_capacity = 16 * static_cast<position>(InitialCapacity);

  T& cell(position index) noexcept { return cells_[index & (capacity_ - 1)]; }

  // relaxed: called only by the owner, the only thread that writes the bottom.
  position own_bottom() const noexcept { return bottom_.load(std::memory_order_relaxed); }

  void publish(position bottom) noexcept {
    // release: pairs with the acquire in claim(); makes the elements below this bottom, and the
    // memory to which they point, visible to thieves. Needed even when an element is taken, because
    // a thief may see only the latest store of the bottom.
    bottom_.store(bottom, std::memory_order_release);
  }

  position estimated_size() const noexcept {
    // relaxed: the size is an estimate.
    return bottom_.load(std::memory_order_relaxed) -
           position_of(top_.load(std::memory_order_relaxed));
  }

  static constexpr position position_of(position top) noexcept { return top & ~fence_request; }
  // relaxed: the top changes only under the lock, which the caller holds.
  position locked_top() const noexcept { return position_of(top_.load(std::memory_order_relaxed)); }

  static position share_of(position size) noexcept {
    return std::min((size + 1) / 2, static_cast<position>(max_stolen));
  }

  /// Thief, under the lock: moves the top over at most `max_elements` of the oldest elements, and
  /// returns their number.
  position claim(position max_elements) noexcept {
    // relaxed: the top changes only under the lock, and the bottom is read again after the fence.
    const position old_top = top_.load(std::memory_order_relaxed);
    const position top = position_of(old_top);
    const position count =
        std::min(max_elements, share_of(bottom_.load(std::memory_order_relaxed) - top));
    if (count <= 0) return 0;
    top_.store((top + count) | fence_request, std::memory_order_relaxed);
    old_top == top ? asymmetric_heavy_fence() : full_fence();
    // acquire: pairs with the release in publish().
    const position bottom = bottom_.load(std::memory_order_acquire);
    if (bottom >= top + count) [[likely]]
      return count;
    const position left_by_owner = std::max<position>(bottom - top, 0);
    // relaxed: an owner that misses this store checks again under the lock.
    top_.store((top + left_by_owner) | fence_request, std::memory_order_relaxed);
    return left_by_owner;
  }

  /// Owner, after lowering the bottom to `newest`: the slow part of pop(), while a thief is active
  /// or was recently.
  [[gnu::noinline]] T pop_with_thieves(position newest) noexcept {
    full_fence();
    const position top = top_.load(std::memory_order_relaxed);  // relaxed: the fence orders the top
    if (position_of(top) > newest) return pop_contended(newest);
    if (top != top_at_fence_) {
      top_at_fence_ = top;
      fences_ = 0;
    } else if (++fences_ >= QuietFences && lock_.try_lock()) {
      // relaxed: thieves read it under the lock.
      top_.store(locked_top(), std::memory_order_relaxed);
      lock_.unlock();
    }
    return cell(newest);
  }

  /// Owner, after lowering the bottom to `newest`: decides under the lock, which excludes thieves.
  T pop_contended(position newest) noexcept {
    {
      const std::lock_guard lock(lock_);
      update_limits();
    }
    if (floor_ <= newest) {
      has_contention_ = true;
      return cell(newest);
    }
    publish(newest + 1);
    return return_none();
  }

  /// Owner, under the lock: updates floor_ and limit_; no thief still needs the cells before the
  /// top.
  void update_limits() noexcept {
    floor_ = locked_top();
    limit_ = floor_ + capacity_;
  }

  /// Owner: makes space for `count` elements. Returns how many, at most `count`, can be added
  /// without a further check.
  position reserve_cells(position count) noexcept {
    if (limit_ - own_bottom() >= count) [[likely]]
      return count;
    return reserve_cells_slowly(count);
  }

  [[gnu::noinline]] position reserve_cells_slowly(position count) noexcept {
    const std::lock_guard lock(lock_);
    update_limits();
    const position size = own_bottom() - floor_;
    // Allocates for twice the present size, so that growing is rare.
    if (2 * size + count > capacity_) reallocate(2 * size + count);
    return std::min(count, limit_ - own_bottom());
  }

  /// Owner, under the lock: moves the elements to a larger block. No effect if memory is exhausted.
  void reallocate(position min_capacity) noexcept {
    const std::size_t capacity =
        std::max(InitialCapacity, std::bit_ceil(static_cast<std::size_t>(min_capacity)));
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

  // Completes a pop() from an empty deque. Called by the owner.
  T return_none() noexcept {
    if (capacity_ > kept_capacity) [[unlikely]]
      release_memory();
    return T{};
  }

  /// Owner of an empty deque: frees its memory.
  [[gnu::noinline]] void release_memory() noexcept {
    const std::lock_guard lock(lock_);
    delete[] cells_;
    cells_ = nullptr;
    capacity_ = 0;
    update_limits();
  }

  // Only the deque's owner writes the members up to has_contention_.
  alignas(false_sharing_range) gyre::detail::atomic<position> bottom_{0};
  position floor_ = 0;     // the top when the owner last held the lock
  position limit_ = 0;     // the maximum of the bottom
  position capacity_ = 0;  // the size of cells_: a power of two, or 0; changes under the lock
  T* cells_ = nullptr;
  position top_at_fence_ = 0;  // the top after the last full fence
  unsigned fences_ = 0;        // the full fences since top_at_fence_ changed
  bool has_contention_ = false;

  // Thieves write this word: the position of the oldest element, and fence_request.
  alignas(false_sharing_range) gyre::detail::atomic<position> top_{0};
  spin_lock lock_;  // a thief holds it for the time of a fence and a short copy
};

}  // namespace gyre::detail
