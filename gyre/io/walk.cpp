// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/walk.hpp>

#include <gyre/io/detail/directory_stack.hpp>
#include <gyre/io/detail/path_call.hpp>
#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gyre::io {
namespace {

using detail::failure_of;
using detail::outcome_of;
using detail::raw_entry;

class tree_reader {
 public:
  tree_reader(std::string root, const walk_options& options)
      : stack_(std::move(root)), options_(options) {}

  /// Reads a batch, which is empty at the end. An error is reported after the entries before it.
  outcome_of<std::span<walk_entry>> read() {
    count_ = 0;
    if (!has_begun_) open_root();
    path_bytes_ = 0;
    while (error_ == 0 && stack_.depth() > 0 && count_ < max_entries && path_bytes_ < max_bytes) {
      advance();
    }
    if (count_ == 0 && error_ != 0) return failure_of(error_);
    return std::span(entries_).first(count_);
  }
  /// Returns the path of the error, or the root's.
  const std::string& error_path() const noexcept {
    return error_ != 0 ? failed_path_ : stack_.path();
  }

 private:
  // The limits of one batch.
  static constexpr std::size_t max_entries = 256;
  static constexpr std::size_t max_bytes = std::size_t{1} << 20;

  void open_root() {
    has_begun_ = true;
    const std::string& root = stack_.path();
    const int error = root.contains('\0') ? EINVAL : stack_.open_root(AT_FDCWD, root.c_str(), 0);
    if (error != 0) return fail(error, root);
    if (options_.max_depth == 0) leave();
  }
  void advance() {
    const outcome_of<std::optional<raw_entry>> next_entry = stack_.innermost().next();
    if (!next_entry) return leave_unreadable(next_entry.error().value());
    if (!*next_entry) return leave();
    const raw_entry& entry = **next_entry;
    walk_entry& target = add(stack_.path_of(entry.name), entry.type);
    target.inode = entry.inode;
    if (options_.sizes && entry.type == file_type::regular) target.size = size_of(entry.name);
    if (stack_.depth() < options_.max_depth) enter(entry);
  }

  walk_entry& add(std::string path, file_type type) {
    if (count_ == entries_.size()) entries_.emplace_back();
    walk_entry& target = entries_[count_++];
    path_bytes_ += path.size();
    target.path = std::move(path);
    target.type = type;
    target.depth = stack_.depth();
    target.inode = 0;
    target.size = 0;
    target.error.clear();
    return target;
  }

  void enter(const raw_entry& entry) {
    walk_entry& target = entries_[count_ - 1];
    const bool through_symlink = entry.type == file_type::symlink && follows(entry.name);
    if (entry.type != file_type::directory && !through_symlink) return;
    if (options_.descend != nullptr && !options_.descend(target)) return;
    const int error = stack_.enter(entry.name, through_symlink);
    // The directory may have vanished, or been replaced by another file.
    if (error == 0 || error == ENOENT || error == ENOTDIR) return;
    if (!options_.report_errors) return fail(error, target.path);
    target.error.assign(error, std::system_category());
  }
  bool follows(const char* symlink) {
    if (!options_.follow_symlinks) return false;
    const auto status =
        detail::system::status_at(stack_.innermost().fd(), symlink, AT_STATX_DONT_SYNC, STATX_TYPE);
    return status && S_ISDIR(status->stx_mode);
  }

  std::uint64_t size_of(const char* name) noexcept {
    const auto status = detail::system::status_at(stack_.innermost().fd(), name,
                                                  AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_SIZE);
    return status && S_ISREG(status->stx_mode) ? status->stx_size : 0;
  }

  void leave_unreadable(int error) {
    if (!options_.report_errors) return fail(error, stack_.path());
    walk_entry& target = add(stack_.path(), file_type::directory);
    --target.depth;
    target.error.assign(error, std::system_category());
    leave();
  }
  void leave() {
    if (const int error = stack_.leave(); error != 0) fail(error, stack_.path());
  }
  void fail(int error, std::string path) {
    error_ = error;
    failed_path_ = std::move(path);
  }

  detail::directory_stack stack_;
  walk_options options_;
  bool has_begun_ = false;
  int error_ = 0;
  std::string failed_path_;
  std::vector<walk_entry> entries_;
  std::size_t count_ = 0;
  std::size_t path_bytes_ = 0;
};

}  // namespace

async_generator<walk_entry&> walk(std::string root, walk_options options, executor* pool) {
  tree_reader tree(std::move(root), options);
  const auto read_batch = [&tree](detail::path_arguments& arguments) {
    const auto batch = tree.read();
    if (!batch) arguments.path = tree.error_path();
    return batch;
  };
  for (;;) {
    auto batch_task = detail::path_operation("walk", pool, {}, read_batch);
    const std::span<walk_entry> batch = co_await std::move(batch_task);
    if (batch.empty()) co_return;
    for (walk_entry& entry : batch) co_yield entry;
  }
}

}  // namespace gyre::io
