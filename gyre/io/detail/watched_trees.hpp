// SPDX-License-Identifier: Apache-2.0
// watched_trees: finds the directories of recursive watches, even while they are renamed.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/directory_stack.hpp>
#include <gyre/io/detail/watched_inodes.hpp>
#include <gyre/io/file_change.hpp>

#include <deque>
#include <expected>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::io::detail {

/// Records describe the past, and a scan of the file system shows the present, for which records
/// are still to come. So a position that a record names is examined again, and a position that a
/// scan contradicts is doubted until all records are processed. It is then examined again, and if
/// the directory is not there, the directory has left the tree, or a later record will name it
/// again.
///
/// A directory is always opened before it is watched, read and entered, so that all three concern
/// one inode, even if names change meanwhile, and symbolic links are not followed.
///
/// Thread-safety: the loop's thread.
class watched_trees {
 public:
  /// Appends the entries of new directories to `events`.
  watched_trees(int inotify, std::deque<file_event>& events) noexcept
      : inotify_(inotify), found_events_(events) {}

  watched_inodes& inodes() noexcept { return inodes_; }

  /// Watches an inode outside of a tree, or the top of one. Returns an error number, or zero.
  int watch_top(program_watch& watch, std::uint32_t flags);
  /// Watches everything in a new tree. Returns the error of what could not be watched.
  std::error_code read_whole(program_watch& tree);
  /// Begins to read the whole tree once more, and ends the watches of directories that are not
  /// found.
  void begin_again(program_watch& tree);
  /// Reads an entry. Returns false if nothing is left to read.
  bool scan_next();
  /// Examines a doubted directory again, when all records are processed. Returns false if there is
  /// none.
  bool verify_next();

  /// Handles a record that a directory has come into another one.
  void come(watched_inode& directory, std::string_view name);
  /// Handles a record that a directory has left another one, and perhaps the tree.
  void leave(watched_inode& directory, std::string_view name);
  /// Handles a record that a directory was moved within its tree. Returns false if it is not
  /// certain which directory moved: then everything that is found under the new name is reported.
  bool move(watched_inode& source, std::string_view old_name, watched_inode& target,
            std::string_view name);

  /// Handles a record that a directory was removed.
  void remove(watched_inode& directory, std::string_view name);

  /// Ends the watches of an inode and of all below it.
  void drop(watched_inode& top) noexcept;

  /// Returns and clears the last error.
  std::error_code take_failure() noexcept { return std::exchange(failure_, {}); }
  /// Returns whether a tree was not read, since the last call, because descriptors or memory were
  /// lacking.
  bool take_lack_of_resources() noexcept { return std::exchange(has_lacked_resources_, false); }

 private:
  struct scan {
    watched_inode* of;
    scan_extent extent = {};
    open_directory entries = {};
  };
  struct look {
    bool is_certain;  // whether the name's inode is known for sure; false after an error
    watched_inode* inode = nullptr;
    bool is_new = false;
  };
  struct reach_result {
    unique_fd fd;
    int error = 0;
    // The first inode on the path that is not at its position.
    watched_inode* missing_inode = nullptr;
  };

  look look_at(watched_inode& directory, std::string_view name);
  look enter(watched_inode& directory, int fd, const std::string& name, scan_extent extent);
  std::expected<unique_fd, int> open(watched_inode& directory);
  reach_result reach(watched_inode& directory);
  std::expected<int, int> watch_open(int fd, const program_watch& watch) noexcept;
  int compare(int fd, const watched_inode& inode) noexcept;
  static void end_name(watched_inode& directory, std::string_view name, const look& view);
  static bool is_reported(const watched_inode& inode) noexcept;
  void report_again(watched_inode& directory, bool with_itself);
  void request(watched_inode& directory, scan_extent extent);
  void postpone(watched_inode& directory, scan_extent extent, int error);
  void mark_unverified(watched_inode& inode);
  void doubt_others(watched_inode& directory, std::string_view name, const watched_inode* occupant);
  void report_created(const watched_inode& directory, std::string_view name, bool is_directory);
  void note_failure(program_watch& watch, int error) noexcept;
  void read_entry();
  bool drop_lost_inodes();

  int inotify_;
  std::deque<file_event>& found_events_;
  watched_inodes inodes_;
  std::deque<scan> scans_;
  std::vector<program_watch*> rescans_;  // the trees that are read again as a whole
  std::vector<watched_inode*> unverified_inodes_;
  std::error_code failure_;
  bool has_lacked_resources_ = false;
};

/// Returns the error for the error number of a watch: errc::watch_limit for ENOSPC.
std::error_code watch_error(int error) noexcept;
/// Returns whether an error number means a lack of descriptors or memory, which may be temporary.
bool is_shortage(int error) noexcept;

}  // namespace gyre::io::detail
