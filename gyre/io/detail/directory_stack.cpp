// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/directory_stack.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

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

// The type of an entry that is gone remains unknown.
file_type type_by_status(int directory, const char* name) noexcept {
  struct ::statx status;
  const int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  if (::statx(directory, name, flags, STATX_TYPE, &status) < 0) return file_type::unknown;
  return type_of_mode(status.stx_mode);
}

}  // namespace

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

unique_fd open_directory_in(int directory, const char* name, int flags) noexcept {
  return unique_fd(gyre::detail::retry_interrupted(
      [&] { return ::openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags); }));
}

const ::dirent64* open_directory::take() noexcept {
  const auto* const entry = reinterpret_cast<const ::dirent64*>(buffer_.get() + begin_);
  begin_ += entry->d_reclen;
  position_ = entry->d_off;
  return entry;
}

outcome_of<std::optional<raw_entry>> open_directory::next() {
  // operator new aligns the buffer for entries.
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<std::byte[]>(buffer_size);
  for (;;) {
    if (needs_read()) {
      const auto count = gyre::detail::retry_interrupted(
          [&] { return ::getdents64(fd(), buffer_.get(), buffer_size); });
      // A directory that was removed while it was open has no entries.
      if (count < 0 && errno != ENOENT) return failure_of(errno);
      if (count <= 0) return std::nullopt;
      begin_ = 0;
      end_ = static_cast<std::size_t>(count);
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
  if (::lseek(fd.get(), position_, SEEK_SET) < 0) return errno;
  fd_ = std::move(fd);
  return 0;
}

int directory_stack::open_root(int directory, const char* name, int flags) {
  unique_fd fd = open_directory_in(directory, name, flags);
  if (!fd) return errno;
  level root{.path_size = path_.size()};
  if (const int error = identify(fd.get(), root.id); error != 0) return error;
  root.directory = open_directory(std::move(fd));
  levels_.push_back(std::move(root));
  return 0;
}

int directory_stack::enter(const char* name, bool through_symlink) {
  if (through_symlink && symlinks_ == most_symlinks) return ELOOP;
  unique_fd fd = open_directory_in(innermost().fd(), name, through_symlink ? 0 : O_NOFOLLOW);
  if (!fd) return errno;
  level inner{.through_symlink = through_symlink};
  if (const int error = identify(fd.get(), inner.id); error != 0) return error;
  if (through_symlink && is_on_the_way(inner.id)) return ELOOP;
  std::string path = path_of(name);
  inner.directory = open_directory(std::move(fd));
  inner.path_size = path.size();
  levels_.push_back(std::move(inner));
  path_ = std::move(path);
  if (through_symlink) ++symlinks_;
  close_outer();
  return 0;
}

int directory_stack::leave() noexcept {
  const level inner = std::move(levels_.back());
  levels_.pop_back();
  if (inner.through_symlink) --symlinks_;
  if (levels_.empty()) return 0;
  level& outer = levels_.back();
  path_.resize(outer.path_size);
  if (outer.directory.is_open()) return 0;
  unique_fd fd = open_directory_in(inner.directory.fd(), "..", 0);
  if (!fd) return errno;
  identity found;
  if (const int error = identify(fd.get(), found); error != 0) return error;
  return found == outer.id ? outer.directory.reopen(std::move(fd)) : ESTALE;
}

std::string directory_stack::path_of(std::string_view name) const {
  std::string path;
  path.reserve(path_.size() + 1 + name.size());
  path = path_;
  if (!path.ends_with('/')) path += '/';
  return path.append(name);
}

int directory_stack::identify(int fd, identity& id) noexcept {
  struct ::statx status;
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &status) < 0) return errno;
  id = {.device = ::makedev(status.stx_dev_major, status.stx_dev_minor), .inode = status.stx_ino};
  return 0;
}

bool directory_stack::is_on_the_way(const identity& id) const noexcept {
  return std::ranges::find(levels_, id, &level::id) != levels_.end();
}

// Keeps no more than the innermost directories open, after one was entered.
void directory_stack::close_outer() noexcept {
  if (levels_.size() <= most_open) return;
  const std::size_t outer = levels_.size() - 1 - most_open;
  if (!levels_[outer + 1].through_symlink) levels_[outer].directory.close();
}

}  // namespace gyre::io::detail
