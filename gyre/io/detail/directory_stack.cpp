// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/directory_stack.hpp>

#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace gyre::io::detail {

int directory_stack::open_root(int directory, const char* name, int flags) {
  auto fd = system::open_at(directory, name, O_DIRECTORY | flags);
  if (!fd) return fd.error();
  level root{.path_size = path_.size()};
  if (const int error = identify(fd->get(), root.id); error != 0) return error;
  root.directory = open_directory(*std::move(fd));
  levels_.push_back(std::move(root));
  return 0;
}

int directory_stack::enter(const char* name, bool through_symlink) {
  if (through_symlink && symlinks_ == max_symlinks) return ELOOP;
  const int follow_flag = through_symlink ? 0 : O_NOFOLLOW;
  auto fd = system::open_at(innermost().fd(), name, O_DIRECTORY | follow_flag);
  if (!fd) return fd.error();
  level child{.through_symlink = through_symlink};
  if (const int error = identify(fd->get(), child.id); error != 0) return error;
  if (through_symlink && contains(child.id)) return ELOOP;
  std::string path = path_of(name);
  child.directory = open_directory(*std::move(fd));
  child.path_size = path.size();
  levels_.push_back(std::move(child));
  path_ = std::move(path);
  if (through_symlink) ++symlinks_;
  close_outer();
  return 0;
}

int directory_stack::leave() noexcept {
  const level closed_level = std::move(levels_.back());
  levels_.pop_back();
  if (closed_level.through_symlink) --symlinks_;
  if (levels_.empty()) return 0;
  level& parent = levels_.back();
  path_.resize(parent.path_size);
  if (parent.directory.is_open()) return 0;
  auto fd = system::open_at(closed_level.directory.fd(), "..", O_DIRECTORY);
  if (!fd) return fd.error();
  identity id;
  if (const int error = identify(fd->get(), id); error != 0) return error;
  return id == parent.id ? parent.directory.reopen(*std::move(fd)) : ESTALE;
}

std::string directory_stack::path_of(std::string_view name) const {
  std::string path;
  path.reserve(path_.size() + 1 + name.size());
  path = path_;
  if (!path.ends_with('/')) path += '/';
  return path.append(name);
}

int directory_stack::identify(int fd, identity& id) noexcept {
  const auto status = system::status_of(fd, STATX_INO, AT_STATX_DONT_SYNC);
  if (!status) return status.error();
  id = {.device = system::device_of(*status), .inode = status->stx_ino};
  return 0;
}

bool directory_stack::contains(const identity& id) const noexcept {
  return std::ranges::find(levels_, id, &level::id) != levels_.end();
}

// Keeps at most `max_open` directories open: closes the outermost one. A directory that was left
// through a symlink stays open, because ".." of the link's target does not lead back to it.
void directory_stack::close_outer() noexcept {
  if (levels_.size() <= max_open) return;
  const std::size_t index = levels_.size() - 1 - max_open;
  if (!levels_[index + 1].through_symlink) levels_[index].directory.close();
}

}  // namespace gyre::io::detail
