// SPDX-License-Identifier: Apache-2.0
// read_directory, directory_reader: the entries of a directory, for coroutines.
//
//     auto entries = gyre::io::read_directory("/var/log");
//     while (gyre::io::directory_entry* entry = co_await entries.next()) {
//       if (entry->type == gyre::io::file_type::regular) logs.push_back(entry->name);
//     }
//
// walk.hpp reads whole trees; file_system.hpp makes, renames and removes directories.
#pragma once

#include <gyre/io/detail/open_directory.hpp>
#include <gyre/io/detail/path_call.hpp>
#include <gyre/io/file_type.hpp>
#include <gyre/task/async_generator.hpp>
#include <gyre/task/executor.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gyre::io {

/// A name in a directory.
struct directory_entry {
  /// Any bytes but '/' and zero: not always UTF-8, and newlines are allowed.
  std::string name;
  /// The type of the name itself: `symlink` for a symlink; `unknown` if the name vanished before
  /// its type was known.
  file_type type = file_type::unknown;
  std::uint64_t inode = 0;
};

namespace detail {

/// The state of a directory_reader.
struct directory_listing {
  std::string path;
  open_directory directory;
  // The entries of the last batch, whose memory the next one uses.
  std::vector<directory_entry> entries;
};

}  // namespace detail

/// An open directory, which is read in batches. Move-only.
///
///     auto reader = co_await gyre::io::directory_reader::open("/var/log");
///     for (;;) {
///       const std::span<gyre::io::directory_entry> batch = co_await reader.next_batch();
///       if (batch.empty()) break;
///       for (gyre::io::directory_entry& entry : batch) logs.push_back(std::move(entry.name));
///     }
///
/// The order is the file system's. An entry that is added or removed while the directory is read
/// may be missing or not; all others come once.
///
/// Thread-safety: one operation at a time, on any thread.
/// Lifetime: the entries of a batch live until the next operation or the destructor, which closes
/// the directory. The reader must outlive its operations.
/// Errors: std::system_error that names the path, or values by as_expected(): those of open(2) and
/// getdents(2), such as std::errc::not_a_directory. A stop is handled as for a file on a pool.
/// Complexity: a batch is one getdents(2) on a thread of the pool, and two switches between
/// threads. It needs 32 KiB and the memory of at most some 1300 entries, however large the
/// directory is.
class directory_reader {
 public:
  /// Makes a reader without a directory.
  directory_reader() noexcept = default;

  /// Awaited, opens the directory at `path`, which may be a symlink to one, and gives its reader.
  /// All operations run on `pool`; null: on blocking_pool().
  static auto open(std::string path, executor* pool = nullptr) {
    return detail::path_operation(
        "read_directory", pool, {.path = std::move(path)},
        [pool](const detail::path_arguments& arguments) { return open_now(arguments.path, pool); });
  }

  /// Returns whether the reader has a directory.
  [[nodiscard]] explicit operator bool() const noexcept { return listing_ != nullptr; }

  /// Awaited, gives the next entries, a std::span<directory_entry>: empty at the end. Their names
  /// may be moved from.
  auto next_batch() const {
    return detail::path_operation("read_directory", pool_, {},
                                  [listing = listing_.get()](detail::path_arguments& arguments) {
                                    return read_now(listing, arguments.path);
                                  });
  }

 private:
  static detail::outcome_of<directory_reader> open_now(const std::string& path, executor* pool);
  /// Sets `path` to the directory's path, for the message of an error.
  static detail::outcome_of<std::span<directory_entry>> read_now(detail::directory_listing* listing,
                                                                 std::string& path);

  std::unique_ptr<detail::directory_listing> listing_;
  executor* pool_ = nullptr;
};

/// The entries of the directory at `path`, as a sequence. A consumer may stop at any of them: the
/// generator's destructor closes the directory.
///
/// Thread-safety: next() may be awaited on any thread, by one coroutine at a time.
/// Lifetime: as async_generator; an entry's name may be moved from.
/// Errors: next() throws those of directory_reader.
/// Complexity: as directory_reader; most calls of next() do not suspend.
async_generator<directory_entry&> read_directory(std::string path, executor* pool = nullptr);

}  // namespace gyre::io
