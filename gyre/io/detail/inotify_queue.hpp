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

/// An event as the kernel reports it, without its padding. Lifetime: the name is valid until the
/// next read() of the queue.
struct inotify_record {
  int watch_descriptor;  // the number that inotify(7) calls wd
  std::uint32_t mask;
  std::uint32_t cookie;
  std::string_view name;
};

/// An inotify instance with the records of one read. Further records wait in the kernel, which
/// limits their number.
class inotify_queue {
 public:
  /// Opens the instance of inotify. Throws std::system_error (EMFILE).
  inotify_queue();

  int fd() const noexcept { return descriptor_.get(); }
  bool empty() const noexcept { return first_ == end_; }
  /// Returns whether there is memory for further records, before the present ones are taken.
  bool can_read() const noexcept;
  /// Reads further records. Returns false if there are none, or no memory for them. Throws
  /// std::system_error.
  bool read();
  /// Returns the descriptors of all watches that have not ended, in ascending order, or an error
  /// number: that of opening a file of /proc, or ENOSYS if the kernel does not list watches there.
  std::expected<std::vector<int>, int> descriptors() const;

  // The other functions need a queue that is not empty.

  std::uint32_t front_mask() const noexcept { return record_at(first_).mask; }
  inotify_record take_front() noexcept;
  /// Returns the second part of the rename whose first part is the front record. The second part
  /// stays in the queue as a record without an event.
  std::optional<inotify_record> take_other_part() noexcept;

 private:
  inotify_record record_at(std::size_t position) const noexcept;
  std::size_t size_at(std::size_t position) const noexcept;

  static constexpr std::size_t buffer_size = 8192;

  unique_fd descriptor_;
  std::size_t first_ = 0;
  std::size_t end_ = 0;
  alignas(8) std::array<std::byte, buffer_size> records_;
};

}  // namespace gyre::io::detail
