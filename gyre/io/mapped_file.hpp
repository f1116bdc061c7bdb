// SPDX-License-Identifier: Apache-2.0
// mapped_file: the content of a file, or a part of it, as memory that is only read.
//
//     const auto words = co_await gyre::io::mapped_file::open("words");
//     const bool has_it = std::ranges::binary_search(lines_of(words.text()), "stream");
#pragma once

#include <gyre/io/detail/path_call.hpp>
#include <gyre/io/file.hpp>
#include <gyre/task/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gyre::io {

/// The order in which a mapping will be read, for the kernel's read-ahead: madvise(2).
enum class mapping_advice : std::uint8_t {
  normal,
  sequential,  ///< the kernel reads far ahead
  random,      ///< the kernel reads only the pages that are touched
  will_need    ///< the kernel begins to read all pages at once
};

/// Options of a mapped_file.
struct mapping_options {
  /// The offset of the first byte in the file; may lie within a page.
  std::uint64_t offset = 0;
  /// The largest size; by default up to the end of the file.
  std::size_t size = std::numeric_limits<std::size_t>::max();
  mapping_advice advice = mapping_advice::normal;
};
// GCC 12 destroys an aggregate's members twice if it is made within an awaited expression.
static_assert(std::is_trivially_destructible_v<mapping_options>);

/// A mapping of a regular file by mmap(2). Move-only.
///
/// Map only files that nobody shortens or overwrites. The bytes are those of the file, so a change
/// by others is visible in them at any time. Worse, the kernel kills the program by SIGBUS, which
/// cannot be turned into an error, when it reads a page beyond the end of a file that was
/// shortened, or a page that the disk fails to deliver. Files that are only ever replaced as a
/// whole, as by replace_whole(), are safe: the mapping keeps the old file. For all other files use
/// file::read_at() or read_whole(), which report both cases as errors.
///
/// A page that is not in memory yet is read from the disk on the thread that touches it, which
/// waits: on a loop, touch only pages that are cached, or read on a pool.
///
/// Thread-safety: any number of threads may read. One thread at a time moves or destroys.
/// Lifetime: needs neither the file nor its name any more. bytes() stay where they are when the
/// object is moved, until the destructor.
/// Errors: std::system_error, or values by as_expected() of open(): those of open(2) and mmap(2);
/// std::errc::is_a_directory, or no_such_device for another thing than a regular file;
/// not_enough_memory or file_too_large if the part does not fit into the address space.
/// Complexity: four system calls, and two switches between threads for open(). Takes address space,
/// not memory: the page cache has the pages, and may drop them.
class mapped_file {
 public:
  /// Makes an object without a mapping.
  mapped_file() noexcept = default;
  /// Maps an open file. Makes system calls that wait for no data. A part beyond the end of the file
  /// is left out, so that the mapping may be shorter than requested, or empty. Files without a
  /// size, such as those of /proc, are empty here: use read_whole().
  explicit mapped_file(const file& source, mapping_options options = {});
  mapped_file(mapped_file&& other) noexcept
      : mapping_(std::exchange(other.mapping_, {})), bytes_(std::exchange(other.bytes_, {})) {}
  mapped_file& operator=(mapped_file&& other) noexcept {
    mapped_file source(std::move(other));
    std::swap(mapping_, source.mapping_);
    std::swap(bytes_, source.bytes_);
    return *this;
  }
  ~mapped_file() { unmap(); }

  /// Awaited, opens the file at `path`, maps it as the constructor does, closes it, and gives the
  /// mapping. `pool` makes the calls; null: blocking_pool().
  static auto open(std::string path, mapping_options options = {}, executor* pool = nullptr) {
    return detail::path_operation("map", pool, {.path = std::move(path)},
                                  [options](const detail::path_arguments& arguments) {
                                    return open_now(arguments.path, options);
                                  });
  }

  /// Returns the mapped bytes, from mapping_options::offset on.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }

  /// Announces the order of future reads to the kernel. A hint, which reports no errors.
  void advise(mapping_advice advice) noexcept;

 private:
  static detail::outcome_of<mapped_file> open_now(const std::string& path,
                                                  const mapping_options& options);
  // Maps a part of a file. Returns an error number, or zero.
  int map(int fd, const mapping_options& options) noexcept;
  void unmap() noexcept;

  std::span<std::byte> mapping_;  // the mapping, in whole pages
  std::span<const std::byte> bytes_;
};

}  // namespace gyre::io
