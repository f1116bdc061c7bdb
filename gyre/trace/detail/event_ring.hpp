// SPDX-License-Identifier: Apache-2.0
// event_ring: the latest events of one thread, which other threads copy while it writes.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/trace/detail/event.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gyre::trace::detail {

/// A ring of events that overwrites the oldest one.
///
/// The protocol is that of a sequence lock with one number for the whole ring. The writer publishes
/// the number of finished events after each event, with release order, and stores each word of the
/// next event with release order as well. So a reader that loads, with acquire order, a word of an
/// event that is still being written also sees that all earlier events have been published. After
/// the copy the reader loads the number again, and discards each copied event whose slot the writer
/// may have begun to overwrite: each at least a whole ring before the number.
///
/// Thread-safety: one thread at a time writes; any thread may read meanwhile.
/// Lifetime: does not own its slots.
/// Complexity: a push is five stores, without atomic read-modify-write.
class event_ring {
 public:
  /// The stored words of an event.
  using slot = std::array<gyre::detail::atomic<std::uint64_t>, event::words>;

  /// `slots`: a power of two of them.
  explicit event_ring(std::span<slot> slots) noexcept
      : slots_(slots.data()), mask_(slots.size() - 1) {}

  /// Adds an event. Called by the writing thread.
  void push(const event& entry) noexcept {
    // relaxed: this thread itself has stored the count.
    const std::uint64_t number = count_.load(std::memory_order_relaxed);
    slot& target = slots_[number & mask_];
    const auto words = entry.pack();
    for (std::size_t index = 0; index < event::words; ++index) {
      // release: pairs with the acquire in append_to(); a reader of this word sees the last store
      // to count_.
      target[index].store(words[index], std::memory_order_release);
    }
    // release: pairs with the acquire in append_to(), which sees the words.
    count_.store(number + 1, std::memory_order_release);
  }

  /// Returns the number of events that were ever pushed. Any thread.
  [[nodiscard]] std::uint64_t pushed() const noexcept {
    // acquire: pairs with the release in push().
    return count_.load(std::memory_order_acquire);
  }

  /// Appends the events that are in the ring, the oldest first, except the first `skip_count` ones
  /// that were ever pushed. Any thread. Throws std::bad_alloc.
  void append_to(std::vector<event>& events, std::uint64_t skip_count = 0) const {
    const std::uint64_t size = mask_ + 1;
    const std::uint64_t end = pushed();
    const std::uint64_t first_position = end > size ? end - size : 0;
    const std::uint64_t first = first_position < skip_count ? skip_count : first_position;
    if (first >= end) return;
    const std::size_t event_count = events.size();
    events.reserve(event_count + static_cast<std::size_t>(end - first));
    for (std::uint64_t number = first; number < end; ++number) {
      const slot& source = slots_[number & mask_];
      std::array<std::uint64_t, event::words> words;
      for (std::size_t index = 0; index < event::words; ++index) {
        // acquire: pairs with both releases in push().
        words[index] = source[index].load(std::memory_order_acquire);
      }
      events.push_back(event::unpack(words));
    }
    // The writer may be writing the event of this number, in the slot of the event a ring earlier.
    const std::uint64_t being_written = pushed();
    if (being_written < size) return;
    const std::uint64_t first_valid = being_written - size + 1;
    if (first_valid <= first) return;
    const std::uint64_t overwritten_count = (first_valid < end ? first_valid : end) - first;
    const auto begin = events.begin() + static_cast<std::ptrdiff_t>(event_count);
    events.erase(begin, begin + static_cast<std::ptrdiff_t>(overwritten_count));
  }

 private:
  slot* const slots_;
  const std::uint64_t mask_;
  gyre::detail::atomic<std::uint64_t> count_{0};
};

}  // namespace gyre::trace::detail
