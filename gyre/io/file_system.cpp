// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/file_system.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/directory_stack.hpp>
#include <gyre/io/detail/system_files.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

namespace gyre::io {
namespace detail {
namespace {

bool is_missing(int error) noexcept { return error == ENOENT || error == ENOTDIR; }

bool is_directory(const std::string& path) noexcept {
  const auto status = system::status_at(AT_FDCWD, path.c_str(), 0, STATX_TYPE);
  return status && S_ISDIR(status->stx_mode);
}

constexpr const char* creation_hint(int error) noexcept {
  return error == ENOENT ? " (create_directories() also makes the directories above)" : "";
}

// Returns the size of the parent's path within `path`; zero if there is none.
std::size_t parent_size(std::string_view path) noexcept {
  const std::size_t name_end = path.find_last_not_of('/');
  if (name_end == path.npos) return 0;
  const std::size_t slash = path.rfind('/', name_end);
  if (slash == path.npos) return 0;
  const std::size_t parent_end = path.find_last_not_of('/', slash);
  return parent_end == path.npos ? 0 : parent_end + 1;
}

}  // namespace

outcome_of<struct ::stat> get_status(path_arguments& arguments) {
  const auto status = system::status_at(AT_FDCWD, arguments.path.c_str(),
                                        static_cast<int>(arguments.flags), STATX_BASIC_STATS);
  if (!status) return failure_of(status.error());
  return stat_of(*status);
}

outcome_of<bool> exists(path_arguments& arguments) {
  const auto status = system::status_at(AT_FDCWD, arguments.path.c_str(), 0, STATX_TYPE);
  if (!status && !is_missing(status.error())) return failure_of(status.error());
  return status.has_value();
}

outcome_of<bool> make_directory(path_arguments& arguments) {
  const int error = system::make_directory_at(AT_FDCWD, arguments.path.c_str(), arguments.mode);
  if (error == 0) return true;
  if (error == EEXIST && is_directory(arguments.path)) return false;
  arguments.hint = creation_hint(error);
  return failure_of(error);
}

outcome_of<bool> make_directories(path_arguments& arguments) {
  const std::string_view whole_path = arguments.path;
  // The loop ascends to the first directory that is there or can be made, and descends again.
  std::size_t size = whole_path.size();
  std::vector<std::size_t> unmade_ends;
  bool has_made_any = false;
  bool is_descending = false;
  for (;;) {
    const std::string path(whole_path.substr(0, size));
    const ::mode_t user_bits = size < whole_path.size() ? S_IWUSR | S_IXUSR : 0;
    const int error = system::make_directory_at(AT_FDCWD, path.c_str(), arguments.mode | user_bits);
    if (error == 0 || (error == EEXIST && is_directory(path))) {
      has_made_any = has_made_any || error == 0;
      if (unmade_ends.empty()) return has_made_any;
      size = unmade_ends.back();
      unmade_ends.pop_back();
      is_descending = true;
      continue;
    }
    // While the loop descends, the parent existed a moment ago: either it takes no directories,
    // like /proc or a removed directory, or it has vanished again. In both cases the loop ends,
    // because it might ascend for ever.
    const std::size_t parent = error == ENOENT && !is_descending ? parent_size(path) : 0;
    if (parent == 0) {
      arguments.path = path;
      return failure_of(error);
    }
    unmade_ends.push_back(size);
    size = parent;
  }
}

unsigned flags_of(const rename_options& options) noexcept {
  return options.no_replace ? RENAME_NOREPLACE : 0;
}

outcome_of<void> rename_file(path_arguments& arguments) {
  const auto& [source, target, mode, flags, hint] = arguments;
  const int error = system::rename_at(AT_FDCWD, source.c_str(), AT_FDCWD, target.c_str(), flags);
  if (error == 0) return {};
  if (target.empty()) arguments.hint = " to an empty path";
  if (error == EEXIST && flags != 0) arguments.hint = " (no_replace)";
  if (error == EXDEV) arguments.hint = " (copy it there, and rename the copy)";
  return failure_of(error);
}

outcome_of<bool> remove_name(path_arguments& arguments) {
  const char* const path = arguments.path.c_str();
  int error = system::unlink_at(AT_FDCWD, path, 0);
  if (error == EISDIR) error = system::unlink_at(AT_FDCWD, path, AT_REMOVEDIR);
  if (error == 0) return true;
  const bool demands_directory = arguments.path.ends_with('/');
  if (error == ENOENT || (error == ENOTDIR && !demands_directory)) return false;
  if (error == ENOTEMPTY) arguments.hint = " (remove_all() removes all that is in it)";
  return failure_of(error);
}

// --- remove_all() ---

namespace {

/// Removes a tree by names within open directories. The parent of the root is opened once, at the
/// beginning.
class tree_remover {
 public:
  explicit tree_remover(std::string root) : root_(std::move(root)), stack_(root_) {
    const std::string_view name =
        std::string_view(root_).substr(0, root_.find_last_not_of('/') + 1);
    name_begin_ = name.rfind('/') + 1;
    name_ = name.substr(name_begin_);
  }

  /// Removes at most `steps` further names. Returns whether there are more.
  outcome_of<bool> remove(std::size_t steps) {
    if (!has_begun_ && !begin()) return result();
    while (error_ == 0 && stack_.depth() > 0) {
      if (steps-- == 0) return true;
      advance();
    }
    return result();
  }
  std::uint64_t removed() const noexcept { return removed_entries_; }
  const std::string& error_path() const noexcept {
    return failed_path_.empty() ? root_ : failed_path_;
  }

 private:
  outcome_of<bool> result() const {
    if (error_ != 0) return failure_of(error_);
    return false;
  }

  // Opens the root and its parent. Returns false if there is no directory to be read.
  bool begin() {
    has_begun_ = true;
    if (const int error = refusal(); error != 0) return fail(error, root_);
    const std::string parent = name_begin_ == 0 ? "." : root_.substr(0, name_begin_);
    auto fd = system::open(parent.c_str(), O_PATH | O_DIRECTORY);
    if (!fd) return !is_missing(fd.error()) && fail(fd.error(), root_);
    parent_ = *std::move(fd);
    // The name keeps its trailing slashes, which require a directory.
    const int error = system::unlink_at(parent_.get(), root_.c_str() + name_begin_, 0);
    if (error == 0) ++removed_entries_;
    if (error == 0 || error == ENOENT) return false;
    return error == EISDIR ? open_root() : fail(error, root_);
  }
  bool open_root() {
    const int error = stack_.open_root(parent_.get(), name_.c_str(), O_NOFOLLOW);
    if (error != 0) return error != ENOENT && fail(error, root_);
    removed_counts_.push_back(0);
    if (!root_identity_) root_identity_ = stack_.innermost_identity();
    // Another directory has taken the name.
    if (*root_identity_ != stack_.innermost_identity()) return fail(ESTALE, root_);
    return true;
  }
  // Returns the error that rmdir(2) would report only after all names have been removed, or zero.
  int refusal() const noexcept {
    if (root_.contains('\0')) return EINVAL;
    if (name_.empty()) return root_.empty() ? 0 : EBUSY;
    return name_ == "." || name_ == ".." ? EINVAL : 0;
  }

  void advance() {
    const outcome_of<std::optional<raw_entry>> entry = stack_.innermost().next();
    if (!entry) {
      fail(entry.error().value(), stack_.path());
    } else if (!*entry) {
      leave();
    } else {
      remove_entry((*entry)->name, (*entry)->type);
    }
  }

  // Removes an entry, whose type may have changed since it was read, and may change again.
  void remove_entry(const char* name, file_type type) {
    int error = type == file_type::directory ? EISDIR : ENOTDIR;
    for (int tries = 0; tries < 8 && (error == EISDIR || error == ENOTDIR); ++tries) {
      error = error == EISDIR ? enter(name) : unlink(name);
    }
    if (error == EISDIR || error == ENOTDIR) error = EBUSY;
    if (error != 0 && error != ENOENT) fail(error, stack_.path_of(name));
  }
  int unlink(const char* name) {
    const int error = system::unlink_at(stack_.innermost().fd(), name, 0);
    if (error == 0) count();
    return error;
  }
  int enter(const char* name) {
    const int error = stack_.enter(name, false);
    if (error == 0) removed_counts_.push_back(0);
    return error;
  }
  void count() {
    ++removed_entries_;
    ++removed_counts_.back();
  }

  // Removes the innermost directory. Some file systems omit names while others are removed, so an
  // attempt that has removed some names is repeated.
  void leave() {
    const std::uint64_t removed_within = removed_counts_.back();
    const std::string path = stack_.path();
    if (const int error = stack_.leave(); error != 0) {
      fail(error, path);
      return;
    }
    removed_counts_.pop_back();
    const bool is_root = stack_.depth() == 0;
    const std::string name = is_root ? name_ : path.substr(path.rfind('/') + 1);
    const int directory = is_root ? parent_.get() : stack_.innermost().fd();
    int error = system::unlink_at(directory, name.c_str(), AT_REMOVEDIR);
    if (error == 0) {
      ++removed_entries_;
      if (!is_root) ++removed_counts_.back();
      return;
    }
    if (error == ENOTEMPTY && removed_within > 0) {
      if (is_root) {
        static_cast<void>(open_root());
        return;
      }
      error = enter(name.c_str());
    }
    // If another file has taken the name, the next pass over the parent finds that file.
    if (error != 0 && error != ENOENT && (is_root || error != ENOTDIR)) fail(error, path);
  }
  bool fail(int error, std::string path) {
    error_ = error;
    failed_path_ = std::move(path);
    return false;
  }

  std::string root_;
  std::size_t name_begin_ = 0;
  std::string name_;  // the root's name in its parent
  unique_fd parent_;
  std::optional<directory_stack::identity> root_identity_;
  directory_stack stack_;
  bool has_begun_ = false;
  int error_ = 0;
  std::string failed_path_;
  std::uint64_t removed_entries_ = 0;
  std::vector<std::uint64_t> removed_counts_;  // the names removed in each directory of the stack
};

}  // namespace

int remove_tree(std::string path) noexcept try {
  // An empty directory needs neither a descriptor nor memory.
  const bool is_valid = !path.contains('\0');
  if (is_valid && system::unlink_at(AT_FDCWD, path.c_str(), AT_REMOVEDIR) == 0) return 0;
  tree_remover tree(std::move(path));
  for (;;) {
    const outcome_of<bool> rest = tree.remove(1024);
    if (!rest) return rest.error().value();
    if (!*rest) return 0;
  }
} catch (const std::bad_alloc&) {
  return ENOMEM;
}

}  // namespace detail

task<std::uint64_t> remove_all(std::string path, executor* pool) {
  detail::tree_remover tree(std::move(path));
  const auto remove_some = [&tree](detail::path_arguments& arguments) {
    const auto rest = tree.remove(1024);
    if (!rest) arguments.path = tree.error_path();
    return rest;
  };
  for (bool has_rest = true; has_rest;) {
    auto remove_task = detail::path_operation("remove_all", pool, {}, remove_some);
    has_rest = co_await std::move(remove_task);
  }
  co_return tree.removed();
}

}  // namespace gyre::io
