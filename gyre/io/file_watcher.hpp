// SPDX-License-Identifier: Apache-2.0
// file_watcher: changes of files and directories, by inotify.
//
//     gyre::io::file_watcher watcher(loop);
//     watcher.add("config.toml", {.changes = gyre::io::file_change::closed_after_write |
//                                            gyre::io::file_change::moved_to,
//                                 .by_name = true});
//     for (;;) {
//       const gyre::io::file_event event = co_await watcher.next();
//       reload();  // also when an editor has replaced the file, and after an overflow
//     }
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/file_watches.hpp>
#include <gyre/io/file_change.hpp>

#include <memory>
#include <string>

namespace gyre::io {

/// A queue of changes in the file system, which a coroutine awaits one by one.
///
/// A watch concerns a file, or a directory and its entries. How it ends:
/// - A watched file or directory is removed: `removed` (for a file, once its last name and the last
///   open descriptor are gone), then `unwatched`.
/// - It is renamed: `moved_from` without a name; the watch continues, under its old path.
/// - Its file system is unmounted: `unwatched`.
///
/// Many programs, editors among them, replace a file: they write another file and rename it to the
/// old one's name. A watch of the file then stays with the old file, and ends with it. To follow a
/// name instead, whichever file has it now or later, set file_watch_options::by_name: such a watch
/// also follows symbolic links that are replaced anywhere on the path.
///
/// A recursive watch concerns all directories of a tree. It adds the directories that are made or
/// moved there later, and reports the entries that were in such a directory before it was watched
/// as `created`; an entry that is made at that moment is reported twice. Other changes in such a
/// directory are reported from then on. Symbolic links in the tree are not followed. Within a tree
/// an inode has one position: a directory that is mounted twice is reported under one of its names.
///
/// Directories may be renamed and exchanged at any time: in the end each directory in the tree is
/// watched, and its events have its present name. Meanwhile an event may have a slightly older or
/// newer name. A rename of a directory is `renamed` if it is certain which directory moved,
/// otherwise `moved_from` and `moved_to`, with everything in the directory `created` under the new
/// name. Entries of exchanged directories are reported as `created`, too. A program that must know
/// every name reads the tree once more when the renames are over.
///
/// A recursive watch finds new directories by its path. When the path leads elsewhere because the
/// root or a directory above it was renamed, next() throws errc::watch_moved at the first new
/// directory: the known directories stay watched, and the whole tree is found again if the path
/// leads there again.
///
/// While nobody awaits next(), changes wait in the kernel, at most fs.inotify.max_queued_events
/// (16384 by default). Further changes are lost, and reported by one event of the kind
/// `overflowed`, which belongs to no watch: examine the files themselves then. Watches that have
/// ended meanwhile are reported as `unwatched` after that, if /proc lists the watches. Recursive
/// watches then read their trees again, and report new directories and their entries as `created`.
/// The kernel merges equal events in a row. A second watch of one directory may report changes from
/// before it was added, if they are still queued.
///
/// inotify reports what programs of this machine do. It does not see changes by other clients of a
/// network file system, writes through mmap(2), nor changes in /proc and /sys. fanotify(7) would
/// watch a whole file system at once, but only with CAP_SYS_ADMIN.
///
/// Thread-safety: next(): any thread. Other members: the loop's thread; while no thread runs the
/// loop, one thread at a time.
/// Lifetime: the loop must outlive the watcher, and the watcher the coroutines that wait for it
/// (asserted). The object may be moved while they wait.
/// Complexity: 8 KiB, a descriptor and an inotify instance for each watcher
/// (fs.inotify.max_user_instances, often 128 for a user). A watch is a system call, and some 1 KiB
/// of the kernel's memory; a recursive one is that for each directory, and add() reads all of them
/// before it returns. One system call reads many events. A directory that is made, renamed or
/// removed in a tree costs up to 13 system calls, however many are watched.
class file_watcher {
 public:
  /// Throws std::system_error: EMFILE when all inotify instances of the user, or descriptors of the
  /// process, are in use.
  explicit file_watcher(event_loop& loop)
      : watches_(std::make_unique<detail::file_watches>(loop)) {}

  /// Watches the file or directory at `path`, which must exist unless options.by_name.
  ///
  /// Errors: std::system_error: ENOENT; ENOTDIR for a recursive watch of a file; EACCES, also for a
  /// directory in the tree; EINVAL for a path with a zero byte; errc::watch_limit, for which
  /// nothing is watched.
  /// std::invalid_argument for both by_name and recursive, and for by_name without a name.
  file_watch add(const std::string& path, const file_watch_options& options = {}) {
    return watches_->add(path, options);
  }
  /// Ends a watch: next() gives none of its events any more. Returns false if the watch has already
  /// ended.
  /// Complexity: a system call for each directory of the watch.
  bool remove(file_watch watch) noexcept { return watches_->remove(watch); }

  /// Awaited, gives the next change as a file_event, and resumes on the coroutine's executor. A
  /// stop loses no change. Each change is given to one wait, the oldest.
  ///
  /// A rename that is seen in two parts, because only one of the two names is watched or the second
  /// part comes late, is given after 10 ms.
  ///
  /// Errors: throws gyre::operation_cancelled when asked to stop; std::system_error if a directory
  /// that came into a recursive watch cannot be watched (errc::watch_limit, errc::watch_moved,
  /// EACCES): then its changes are lost, and the next wait continues with the other directories.
  /// When descriptors or memory are lacking (EMFILE, ENFILE, ENOMEM), the tree is read again every
  /// 200 ms, until that succeeds; the error is reported once. An error is also reported once if the
  /// path of a watch by name cannot be followed (errc::watch_limit, EACCES, ELOOP); the path is
  /// followed again when a name on it changes.
  ///
  /// Complexity: allocates nothing but the names.
  [[nodiscard]] detail::file_watches::wait next() {
    return detail::file_watches::wait(watches_->waits());
  }

 private:
  std::unique_ptr<detail::file_watches> watches_;
};

}  // namespace gyre::io
