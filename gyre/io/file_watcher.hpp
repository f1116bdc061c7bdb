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
/// - It is renamed: `moved_from` without a name; the watch goes on, under its old path.
/// - Its file system is unmounted: `unwatched`.
///
/// Many programs, editors among them, replace a file: they write another one and rename it to the
/// old one's name. A watch of the file keeps to the old file then, and ends with it. To follow a
/// name instead, whatever file has it, now or later, set file_watch_options::by_name.
///
/// A recursive watch concerns all directories of a tree. It adds the directories that are made or
/// moved there later, and reports the entries that were in such a directory before it was watched
/// as `created`; one that is made just then is reported twice, none is missed. Other changes in
/// such a directory are reported from then on. Symbolic links in the tree are not followed.
///
/// Recursive watches have limits where directories are renamed or exchanged. When the root, or a
/// directory above it, is renamed, directories that are made later are missed. Directories within
/// one that is renamed while it is new and being read may stay unwatched, and after several renames
/// in a row events may have an older path. A directory that is replaced by a symbolic link while it
/// is being read may be left through that link. So after an event of the kind `renamed` of a
/// directory, remove the watch and add it again where every change counts. A tree of more
/// directories than fs.inotify.max_queued_events does not recover from an overflow.
///
/// While nobody awaits next(), changes wait in the kernel, at most fs.inotify.max_queued_events
/// (16384 by default). Further ones are lost, and told by one event of the kind `overflowed`, which
/// belongs to no watch: look at the files themselves then. Recursive watches go on with the present
/// directories. The kernel merges equal events in a row.
///
/// inotify reports what programs of this machine do. It does not see changes by other clients of a
/// network file system, writes through mmap(2), nor changes in /proc and /sys. fanotify(7) would
/// watch a whole file system at once, but only with CAP_SYS_ADMIN.
///
/// Thread-safety: next(): any thread. The rest: the loop's thread; while no thread runs the loop,
/// one thread at a time.
/// Lifetime: the loop must outlive the watcher, and the watcher the coroutines that wait for it
/// (asserted). The object may be moved while they wait.
/// Complexity: 8 KiB, a descriptor and an inotify instance for each watcher
/// (fs.inotify.max_user_instances, often 128 for a user). A watch is a system call, and some 1 KiB
/// of the kernel's memory; a recursive one is that for each directory, and add() reads all of them
/// before it returns. One system call reads many events. A renamed directory in a recursive watch
/// costs time in proportion to the number of watched directories.
class file_watcher {
 public:
  /// Throws std::system_error: EMFILE when all inotify instances of the user, or descriptors of the
  /// process, are in use.
  explicit file_watcher(event_loop& loop)
      : watches_(std::make_unique<detail::file_watches>(loop)) {}

  /// Watches the file or directory at `path`, which must exist unless options.by_name.
  ///
  /// Errors: std::system_error: ENOENT; ENOTDIR for a recursive watch of a file; EACCES, also for a
  /// directory in the tree; errc::watch_limit, for which nothing is watched.
  /// std::invalid_argument for both by_name and recursive, and for by_name without a name.
  file_watch add(const std::string& path, const file_watch_options& options = {}) {
    return watches_->add(path, options);
  }
  /// Ends a watch: next() gives none of its events any more. False if it has ended.
  bool remove(file_watch watch) noexcept { return watches_->remove(watch); }

  /// Awaited, gives the next change as a file_event, and resumes on the coroutine's executor. A
  /// stop takes no change. Each change goes to one wait, the oldest.
  ///
  /// A rename that is seen in two parts, because only one of both names is watched or the second
  /// part comes late, is given after 10 ms.
  ///
  /// Errors: throws gyre::operation_cancelled when asked to stop; std::system_error if a directory
  /// that came into a recursive watch cannot be watched (errc::watch_limit, EACCES), or for want of
  /// memory (ENOMEM): then some changes are lost, and the next wait goes on with the others.
  /// Complexity: allocates nothing but the names.
  [[nodiscard]] detail::file_watches::wait next() {
    return detail::file_watches::wait(watches_->waits());
  }

 private:
  std::unique_ptr<detail::file_watches> watches_;
};

}  // namespace gyre::io
