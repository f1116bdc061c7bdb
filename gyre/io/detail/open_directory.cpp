// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/open_directory.hpp>

#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <string_view>

namespace gyre::io::detail {
namespace {

file_type type_of_entry(unsigned char type) noexcept {
  switch (type) {
    case DT_REG: return file_type::regular;
    case DT_DIR: return file_type::directory;
    case DT_LNK: return file_type::symlink;
    case DT_BLK: return file_type::block;
    case DT_CHR: return file_type::character;
    case DT_FIFO: return file_type::fifo;
    case DT_SOCK: return file_type::socket;
    default: return file_type::unknown;
  }
}

file_type type_of_mode(::mode_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFREG: return file_type::regular;
    case S_IFDIR: return file_type::directory;
    case S_IFLNK: return file_type::symlink;
    case S_IFBLK: return file_type::block;
    case S_IFCHR: return file_type::character;
    case S_IFIFO: return file_type::fifo;
    case S_IFSOCK: return file_type::socket;
    default: return file_type::unknown;
  }
}

// Returns the type of an entry by statx(2); unknown if the entry is gone.
file_type type_by_status(int directory, const char* name) noexcept {
  const auto status =
      system::status_at(directory, name, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_TYPE);
  return status ? type_of_mode(status->stx_mode) : file_type::unknown;
}

}  // namespace

const ::dirent64* open_directory::take() noexcept {
  const auto* const entry = reinterpret_cast<const ::dirent64*>(buffer_.get() + begin_);
  begin_ += entry->d_reclen;
  position_ = entry->d_off;
  return entry;
}

outcome_of<std::optional<raw_entry>> open_directory::next() {
  // operator new aligns the buffer sufficiently for directory entries.
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<std::byte[]>(buffer_size);
  for (;;) {
    if (needs_read()) {
      const result outcome = system::read_entries(fd(), {buffer_.get(), buffer_size});
      // A directory that was removed while it was open has no entries.
      if (outcome.error_number() == ENOENT) return std::nullopt;
      if (!outcome) return failure_of(outcome);
      if (outcome.count() == 0) return std::nullopt;
      begin_ = 0;
      end_ = outcome.count();
    }
    const ::dirent64& entry = *take();
    const char* const name = entry.d_name;
    const std::string_view text = name;
    if (text == "." || text == "..") continue;
    const bool tells_type = entry.d_type != DT_UNKNOWN;
    return raw_entry{.name = name,
                     .type = tells_type ? type_of_entry(entry.d_type) : type_by_status(fd(), name),
                     .inode = entry.d_ino};
  }
}

void open_directory::close() noexcept {
  fd_.reset();
  buffer_.reset();
  begin_ = end_ = 0;
}

int open_directory::reopen(unique_fd fd) noexcept {
  assert(!is_open() && "nothing to reopen");
  const result position = system::seek(fd.get(), position_, SEEK_SET);
  if (!position) return position.error_number();
  fd_ = std::move(fd);
  return 0;
}

}  // namespace gyre::io::detail
