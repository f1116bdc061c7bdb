// SPDX-License-Identifier: Apache-2.0
// segment_buffer: the values of an unbounded channel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <utility>

namespace gyre::detail {

/// A queue of values in a chain of segments, of which at most one is spare. T must move without
/// throwing. Thread-safety: none.
template <class T>
class segment_buffer {
 public:
  /// Memory for several values. The owner of the buffer allocates it before locking.
  class segment {
   public:
    segment() noexcept {}  // not defaulted, so that the values stay uninitialised

   private:
    friend segment_buffer;
    static constexpr std::size_t size = std::clamp<std::size_t>(2048 / sizeof(T), 8, 256);

    segment* next_ = nullptr;
    union {
      T values_[size];
    };

   public:
    ~segment() {}
  };

  segment_buffer() noexcept = default;
  segment_buffer& operator=(segment_buffer&&) = delete;
  ~segment_buffer() {
    while (!empty()) pop();
    while (first_ != nullptr) delete std::exchange(first_, first_->next_);
  }

  [[nodiscard]] static constexpr std::size_t capacity() noexcept {
    return std::numeric_limits<std::size_t>::max();
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

  /// Returns whether add_room() must be called before push().
  [[nodiscard]] bool full() const noexcept {
    return last_ == nullptr || (end_ == segment::size && last_->next_ == nullptr);
  }
  void add_room(std::unique_ptr<segment> room) noexcept {
    segment* const new_segment = room.release();
    if (last_ == nullptr) {
      first_ = last_ = new_segment;
    } else {
      // The new segment goes after the last one in use; another spare segment may follow.
      new_segment->next_ = std::exchange(last_->next_, new_segment);
    }
  }

  void push(T&& value) noexcept {
    if (end_ == segment::size) {
      last_ = last_->next_;
      end_ = 0;
    }
    std::construct_at(last_->values_ + end_, std::move(value));
    ++end_;
    ++size_;
  }
  T& front() noexcept { return first_->values_[begin_]; }
  void pop() noexcept {
    std::destroy_at(first_->values_ + begin_);
    --size_;
    if (++begin_ == segment::size) retire_first();
  }

 private:
  void retire_first() noexcept {
    begin_ = 0;
    if (first_ == last_) {
      end_ = 0;  // the only segment is empty and is used again
      return;
    }
    segment* const left = std::exchange(first_, first_->next_);
    if (last_->next_ == nullptr) {
      left->next_ = nullptr;
      last_->next_ = left;
    } else {
      delete left;
    }
  }

  segment* first_ = nullptr;
  segment* last_ = nullptr;  // the last segment in use; a spare one may follow
  std::size_t begin_ = 0;    // the index of the oldest value in first_
  std::size_t end_ = 0;      // the index after the newest value in last_
  std::size_t size_ = 0;
};

}  // namespace gyre::detail
