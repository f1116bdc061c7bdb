// SPDX-License-Identifier: Apache-2.0
// handle_table: the handles that a backend serves, by their index.
#pragma once

#include <gyre/io/detail/chunked_array.hpp>
#include <gyre/io/request.hpp>

#include <cstddef>
#include <cstdint>

namespace gyre::io::detail {

/// The table needs eight bytes for each handle. A free entry holds the index of the next free one.
///
/// Thread-safety: none.
class handle_table {
 public:
  /// Returns one more than the largest index that was ever in use.
  std::size_t size() const noexcept { return entries_.size(); }
  /// Returns the number of handles.
  std::size_t count() const noexcept { return count_; }
  /// Returns the handle of an index below size(), or null.
  handle* operator[](std::size_t index) const noexcept {
    const std::uintptr_t entry = entries_[index];
    return is_free(entry) ? nullptr : reinterpret_cast<handle*>(entry);
  }
  /// Calls `function` for each handle; `function` must not insert or erase handles.
  template <class Function>
  void for_each(Function function) const {
    for (std::size_t index = 0; index < size(); ++index) {
      if (handle* const entry = (*this)[index]) function(*entry);
    }
  }
  /// Returns the index that insert() will use. Throws std::bad_alloc.
  std::uint32_t next_index() {
    if (first_free_ == none) {
      const auto index = static_cast<std::uint32_t>(entries_.size());
      entries_.grow_to(entries_.size() + 1);
      push_free(index);
    }
    return first_free_;
  }
  /// Adds a handle, whose index must be next_index().
  void insert(handle& target) noexcept {
    first_free_ = static_cast<std::uint32_t>(entries_[target.index] >> 1);
    entries_[target.index] = reinterpret_cast<std::uintptr_t>(&target);
    ++count_;
  }
  void erase(const handle& target) noexcept {
    push_free(target.index);
    --count_;
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;

  static bool is_free(std::uintptr_t entry) noexcept { return (entry & 1) != 0; }
  void push_free(std::uint32_t index) noexcept {
    entries_[index] = std::uintptr_t{first_free_} << 1 | 1;
    first_free_ = index;
  }

  chunked_array<std::uintptr_t> entries_;
  std::uint32_t first_free_ = none;
  std::size_t count_ = 0;
};

}  // namespace gyre::io::detail
