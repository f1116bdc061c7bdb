// SPDX-License-Identifier: Apache-2.0
// inotify_queue: an inotify instance, and the records that were read from it.
#pragma once

#include <gyre/base/unique_fd.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string_view>
#include <vector>

namespace gyre::io::detail {

/// An event as the kernel gives it, without its padding. Lifetime: the name's is that of the
/// queue's memory, until the next read().
struct inotify_record {
  int number;  // the kernel's, of a watch
  std::uint32_t mask;
  std::uint32_t cookie;
  std::string_view name;
};

/// Holds as many records as one read brings, so that what is left waits in the kernel, which has a
/// limit.
class inotify_queue {
 public:
  /// Throws std::system_error (EMFILE).
  inotify_queue();

  int fd() const noexcept { return descriptor_.get(); }
  bool empty() const noexcept { return first_ == end_; }
  /// Whether read() may bring more before others are taken.
  bool has_room() const noexcept;
  /// False if there are no further records, or no room for them. Throws std::system_error.
  bool read();
  /// The numbers of all watches that have not ended, in ascending order, or an error of errno's:
  /// that of opening a file of /proc, ENOSYS if the kernel does not list watches there.
  std::expected<std::vector<int>, int> numbers() const;

  // The rest is for a queue that is not empty.

  std::uint32_t front_mask() const noexcept { return record_at(first_).mask; }
  inotify_record take_front() noexcept;
  /// The second part of the rename whose first part is the front; its own turn has nothing to do.
  std::optional<inotify_record> take_other_part() noexcept;

 private:
  inotify_record record_at(std::size_t position) const noexcept;
  std::size_t size_at(std::size_t position) const noexcept;

  static constexpr std::size_t bytes = 8192;

  unique_fd descriptor_;
  std::size_t first_ = 0;
  std::size_t end_ = 0;
  alignas(8) std::array<std::byte, bytes> records_;
};

}  // namespace gyre::io::detail
