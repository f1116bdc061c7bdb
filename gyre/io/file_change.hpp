// SPDX-License-Identifier: Apache-2.0
// file_change, file_event: the changes that a file_watcher reports.
//
//     if (event.kind == gyre::io::file_change::renamed) move_entry(event.old_name, event.name);
#pragma once

#include <cstdint>
#include <string>

namespace gyre::io {

/// Kinds of changes, a set: combine with `|`.
enum class file_change : std::uint16_t {
  none = 0,
  /// A file, directory or link was made, or link(2) gave it another name.
  created = 1u << 0,
  /// The content was written or truncated; reported for each write(2).
  modified = 1u << 1,
  /// A program has closed a file that it had opened for writing: the content is complete.
  closed_after_write = 1u << 2,
  /// Permissions, times, owner or the number of names have changed.
  attributes = 1u << 3,
  removed = 1u << 4,
  /// Renamed to a name that this watch does not concern.
  moved_from = 1u << 5,
  /// Renamed from a name that this watch does not concern.
  moved_to = 1u << 6,
  /// Renamed within this watch. See file_watcher for directories in a recursive one.
  renamed = 1u << 7,
  all = (1u << 8) - 1,
  /// Changes of any watch were lost; reported even if it was not requested.
  overflowed = 1u << 8,
  /// The watch has ended, because there is nothing left to watch; reported even if it was not
  /// requested.
  unwatched = 1u << 9,
};

constexpr file_change operator|(file_change a, file_change b) noexcept {
  return static_cast<file_change>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr file_change operator&(file_change a, file_change b) noexcept {
  return static_cast<file_change>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}
/// Returns whether `set` contains at least one of `changes`.
constexpr bool contains(file_change set, file_change changes) noexcept {
  return (set & changes) != file_change::none;
}

/// The number of a watch, unique in its file_watcher.
enum class file_watch : std::uint32_t { none = 0 };

/// Settings of a watch.
struct file_watch_options {
  /// The kinds to report. A file can come into a directory by `created`, `moved_to` or `renamed`.
  file_change changes = file_change::all;
  /// Whether all directories below `path` are watched, too, including those that are made later.
  bool recursive = false;
  /// Whether the name is watched, whichever file of its directory has it, instead of the file that
  /// has the name now. Needs the directory, and one watch for it. Events have no name. A rename of
  /// the directory is reported as `moved_from`, and the watch stays with the directory.
  ///
  /// Symbolic links anywhere on the path are always followed, with a watch for each of their
  /// directories: the events are those of the file to which the path leads. When a link on the
  /// path, or a directory to which a link leads, is replaced, so that the path leads to another
  /// file, the event is `moved_to`; if the path leads to no file, `moved_from`. This reports that a
  /// volume of Kubernetes (ConfigMap, Secret) or a link to the current release has changed.
  bool by_name = false;
  /// Whether to follow `path` if it is a symbolic link. Otherwise watches the link itself; by name,
  /// links on the way to its directory are followed once.
  bool follow_symlink = true;
};

/// A change.
struct file_event {
  /// The watch, as add() returned it; none for `overflowed`.
  file_watch watch = file_watch::none;
  /// The kind, exactly one.
  file_change kind = file_change::none;
  /// Whether the change concerns a directory. False if a watched directory itself was removed or
  /// moved, because the kernel does not report that.
  bool is_directory = false;
  /// A number that `moved_from` and `moved_to` share if one rename has moved a file from one watch
  /// to another.
  std::uint32_t cookie = 0;
  /// The entry, relative to the path of the watch: "name", or "directory/name" for a recursive
  /// watch. Empty for the watched file or directory itself.
  std::string name = {};
  /// The name before the change; only for `renamed`.
  std::string old_name = {};
};

}  // namespace gyre::io
