// SPDX-License-Identifier: Apache-2.0
// watched_inodes: the inodes that inotify watches, each with its position in a watch of the
// program.
#pragma once

#include <gyre/io/file_change.hpp>

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gyre::io::detail {

struct watched_inode;

/// A watch of the program. A recursive watch is a tree.
struct program_watch {
  file_watch id;
  std::string path;       // the absolute path
  std::string only_name;  // the only name that a watch by name concerns
  file_change changes;
  std::uint32_t mask;  // the events of inotify that the kernel reports
  bool is_recursive;
  watched_inode* top = nullptr;

  // The members below are for a watch by name that follows links: it has no top, but steps, each of
  // which watches one name in a directory.
  std::list<program_watch> steps = {};
  program_watch* owner = nullptr;  // the watch that a step belongs to
  std::optional<std::pair<dev_t, ino_t>> file = {};
  bool has_links = false;
  bool must_follow = false;                // a link, or a name on the path, has changed
  std::uint64_t last_reported_record = 0;  // the last record that caused an event of this watch

  // The members below are for watches of whole trees.
  unsigned generation = 0;        // counts how often the whole tree is read
  std::error_code failure = {};   // the error of this generation
  bool is_new = false;            // whether add() is reading the tree for the first time
  bool lacked_resources = false;  // descriptors or memory were lacking when the tree was read
  bool leads_elsewhere = false;   // the tree's path leads to another directory, or to none
};

/// The way in which a directory is to be read.
struct scan_extent {
  bool reports_itself = false;
  bool reports_all = false;  // reports all entries, as they are new
  bool reports_new = false;  // reports directories that were not watched before
  bool is_deep = false;      // also reads directories that were watched before

  scan_extent& operator|=(scan_extent other) noexcept {
    reports_itself |= other.reports_itself;
    reports_all |= other.reports_all;
    reports_new |= other.reports_new;
    is_deep |= other.is_deep;
    return *this;
  }
};

/// An inode within a watch, at the position where it was seen last.
struct watched_inode {
  watched_inode(int descriptor, program_watch& program) noexcept
      : watch_descriptor(descriptor), watch(program) {}

  bool is_top() const noexcept { return parent == nullptr; }
  void want(scan_extent extent) noexcept {
    if (!wanted_extent) wanted_extent.emplace();
    *wanted_extent |= extent;
  }

  int watch_descriptor;  // the number that inotify(7) calls wd
  program_watch& watch;
  watched_inode* parent = nullptr;
  std::string name;  // the inode's name in its parent
  // Two children may have one name, when a scan has seen a change whose records are still to come:
  // the older child is first.
  std::multimap<std::string_view, watched_inode*> children;

  unsigned generation = 0;
  std::optional<scan_extent> wanted_extent;  // the way to read the inode; none once it was read
  bool is_queued = false;
  bool is_unverified = false;
  // Whether a record has ended the name; the record of the new name is to come.
  bool was_ended = false;
  bool is_unreported = false;  // whether the present name was not yet reported
  bool is_lost = false;  // whether the position is unknown; changes are reported once it is found
  bool is_leaving = false;  // true while the inode's part of the tree is dropped
  watched_inode* next_below = nullptr;
};

/// All watched inodes. The kernel watches inodes: watches of the program that concern one inode
/// share its watch descriptor. Within one watch of the program a descriptor has one position.
class watched_inodes {
 public:
  enum class order { oldest, newest };  // selects one of the children of the same name

  /// `parent`: null for the top of a watch.
  watched_inode& add(int watch_descriptor, program_watch& watch, watched_inode* parent,
                     std::string name);
  void move(watched_inode& inode, watched_inode& parent, std::string name, order rank);
  /// Takes an inode out of its parent. The caller then erases it, with everything below it.
  static void detach(watched_inode& inode) noexcept;
  void erase(watched_inode& inode) noexcept;

  bool contains(int watch_descriptor) const noexcept { return table_.contains(watch_descriptor); }
  watched_inode* find(int watch_descriptor, const program_watch& watch) noexcept;
  /// Fills `inodes` with the inodes of that watch descriptor, one for each watch of the program.
  void collect(int watch_descriptor, std::vector<watched_inode*>& inodes);
  /// Returns the watch descriptors of the tops of watches; that of an inode that is the top of
  /// several watches is repeated.
  std::vector<int> descriptors_of_tops() const;
  /// Returns the children of that name, as entries of watched_inode::children; the oldest is first.
  static auto named(watched_inode& parent, std::string_view name) noexcept {
    const auto [first, last] = parent.children.equal_range(name);
    return std::ranges::subrange(first, last);
  }
  static watched_inode* child(watched_inode& parent, std::string_view name, order rank) noexcept;
  /// Links an inode and everything below it, by next_below.
  static void link_all_below(watched_inode& top) noexcept;
  static bool is_within(const watched_inode& inode, const watched_inode& top) noexcept {
    return any_on_way(inode, [&](const watched_inode& ancestor) { return &ancestor == &top; });
  }
  /// Returns whether `predicate` is true for an inode, or for one above it.
  static bool any_on_way(const watched_inode& inode, auto predicate) noexcept {
    for (const watched_inode* ancestor = &inode; ancestor != nullptr; ancestor = ancestor->parent) {
      if (predicate(*ancestor)) return true;
    }
    return false;
  }
  /// Returns the inodes from the top of the watch, which is first, to `inode`.
  static std::vector<watched_inode*> way_to(watched_inode& inode);
  /// Returns the path of an entry of an inode, relative to the watch; without `entry`, that of the
  /// inode.
  static std::string path_of(const watched_inode& inode, std::string_view entry = {});

 private:
  using children = std::multimap<std::string_view, watched_inode*>;
  static children::iterator entry_of(watched_inode& inode) noexcept;

  std::unordered_multimap<int, watched_inode> table_;
};

}  // namespace gyre::io::detail
