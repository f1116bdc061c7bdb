// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/watched_trees.hpp>

#include <gyre/io/detail/system_files.hpp>
#include <gyre/io/error.hpp>

#include <fcntl.h>
#include <sys/inotify.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

namespace gyre::io::detail {
namespace {

using order = watched_inodes::order;

// Returns whether an error means that another inode, or none, has the name.
bool is_absence(int error) noexcept {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ESTALE;
}

}  // namespace

bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOMEM;
}

std::error_code watch_error(int error) noexcept {
  if (error == ENOSPC) return errc::watch_limit;
  return {error, std::system_category()};
}

// ---- the kernel's watches

int watched_trees::watch_top(program_watch& watch, std::uint32_t flags) {
  const auto watch_descriptor =
      system::add_watch(inotify_, watch.path.c_str(), watch.mask | flags | IN_MASK_ADD);
  if (!watch_descriptor) return watch_descriptor.error();
  inodes_.add(*watch_descriptor, watch, nullptr, {});
  return 0;
}

// Watches an open directory. Returns the watch descriptor, or an error number.
std::expected<int, int> watched_trees::watch_open(int fd, const program_watch& watch) noexcept {
  std::array<char, 40> path;
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", fd);
  return system::add_watch(inotify_, path.data(), watch.mask | IN_ONLYDIR | IN_MASK_ADD);
}

// Returns zero if the open directory is `inode`, otherwise an error number.
int watched_trees::compare(int fd, const watched_inode& inode) noexcept {
  const auto watch_descriptor = watch_open(fd, inode.watch);
  if (!watch_descriptor) return watch_descriptor.error();
  if (*watch_descriptor == inode.watch_descriptor) return 0;
  if (!inodes_.contains(*watch_descriptor)) system::remove_watch(inotify_, *watch_descriptor);
  return ESTALE;
}

void watched_trees::drop(watched_inode& top) noexcept {
  watched_inodes::link_all_below(top);
  for (watched_inode* inode = &top; inode != nullptr; inode = inode->next_below)
    inode->is_leaving = true;
  std::erase_if(scans_, [](const scan& entry) { return entry.of->is_leaving; });
  std::erase_if(unverified_inodes_, [](const watched_inode* inode) { return inode->is_leaving; });
  if (top.is_top()) std::erase(rescans_, &top.watch);
  watched_inodes::detach(top);
  for (watched_inode* inode = &top; inode != nullptr;) {
    watched_inode& old_inode = *std::exchange(inode, inode->next_below);
    const int watch_descriptor = old_inode.watch_descriptor;
    inodes_.erase(old_inode);
    // This fails if the kernel has already ended the watch; the record of that end is then ignored.
    if (!inodes_.contains(watch_descriptor)) system::remove_watch(inotify_, watch_descriptor);
  }
}

// ---- the way to a directory

std::expected<unique_fd, int> watched_trees::open(watched_inode& directory) {
  program_watch& watch = directory.watch;
  std::string path = watch.path;
  if (!directory.is_top()) path.append("/").append(watched_inodes::path_of(directory));
  const int follow_flag = directory.is_top() ? 0 : O_NOFOLLOW;
  auto fd = system::open_at(AT_FDCWD, path.c_str(), O_DIRECTORY | follow_flag);
  const int error = fd ? compare(fd->get(), directory) : fd.error();
  if (error == 0) {
    if (watch.leads_elsewhere) begin_again(watch);
    return fd;
  }
  if (error != ENAMETOOLONG) return std::unexpected(error);
  reach_result by_steps = reach(directory);
  if (!by_steps.fd) return std::unexpected(by_steps.error);
  return std::move(by_steps.fd);
}

// Opens the directory name by name, to find the first name that leads elsewhere.
watched_trees::reach_result watched_trees::reach(watched_inode& directory) {
  auto fd = system::open_at(AT_FDCWD, directory.watch.path.c_str(), O_DIRECTORY);
  for (watched_inode* const inode : watched_inodes::way_to(directory)) {
    if (fd && !inode->is_top()) {
      fd = system::open_at(fd->get(), inode->name.c_str(), O_DIRECTORY | O_NOFOLLOW);
    }
    const int error = fd ? compare(fd->get(), *inode) : fd.error();
    if (error != 0) {
      return {.fd = {}, .error = error, .missing_inode = is_absence(error) ? inode : nullptr};
    }
  }
  return {.fd = *std::move(fd)};
}

// ---- looks at the present

watched_trees::look watched_trees::look_at(watched_inode& directory, std::string_view name) {
  const auto fd = open(directory);
  if (!fd) {
    postpone(directory, {.reports_new = true}, fd.error());
    return {.is_certain = false};
  }
  return enter(directory, fd->get(), std::string(name), {.reports_new = true});
}

// Watches `name` if it is a directory, and marks it to be read if it is new. `fd`: the open
// `directory`.
watched_trees::look watched_trees::enter(watched_inode& directory, int fd, const std::string& name,
                                         scan_extent extent) {
  program_watch& watch = directory.watch;
  const auto child_fd = system::open_at(fd, name.c_str(), O_DIRECTORY | O_NOFOLLOW);
  const auto watch_descriptor =
      child_fd ? watch_open(child_fd->get(), watch) : std::unexpected(child_fd.error());
  if (!watch_descriptor) {
    const bool is_certain = is_absence(watch_descriptor.error());
    if (is_certain) {
      doubt_others(directory, name, nullptr);
    } else {
      note_failure(watch, watch_descriptor.error());
    }
    return {.is_certain = is_certain};
  }
  watched_inode* child = inodes_.find(*watch_descriptor, watch);
  const bool is_new = child == nullptr;
  if (is_new) {
    child = &inodes_.add(*watch_descriptor, watch, &directory, name);
    if (extent.reports_new) extent.reports_all = true;
    request(*child, extent);
  } else if (watched_inodes::is_within(directory, *child)) {
    // The found directory contains `directory`: it was moved meanwhile, which records of inotify
    // will report, or it is a bind mount that leads back to an outer directory.
    return {.is_certain = false};
  } else {
    const bool was_elsewhere = watched_inodes::child(directory, name, order::newest) != child;
    if (was_elsewhere) inodes_.move(*child, directory, name, order::newest);
    if ((std::exchange(child->is_lost, false) || was_elsewhere) && !watch.is_new) {
      report_again(*child, !extent.reports_all);
    }
    if (extent.is_deep) {
      request(*child, {.reports_all = extent.reports_all, .reports_new = true, .is_deep = true});
    }
  }
  child->generation = watch.generation;
  if (extent.reports_all) child->is_unreported = child->was_ended = false;
  doubt_others(directory, name, child);
  return {.is_certain = true, .inode = child, .is_new = is_new};
}

void watched_trees::mark_unverified(watched_inode& inode) {
  if (inode.is_unverified) return;
  unverified_inodes_.push_back(&inode);
  inode.is_unverified = true;
}

void watched_trees::doubt_others(watched_inode& directory, std::string_view name,
                                 const watched_inode* occupant) {
  for (const auto& [key, inode] : watched_inodes::named(directory, name)) {
    if (inode != occupant) mark_unverified(*inode);
  }
}

bool watched_trees::verify_next() {
  if (unverified_inodes_.empty()) return false;
  watched_inode& inode = *unverified_inodes_.back();
  unverified_inodes_.pop_back();
  inode.is_unverified = false;
  const reach_result place = reach(inode);
  if (place.fd) {
    if (std::exchange(inode.is_lost, false)) report_again(inode, true);
    if (inode.wanted_extent) request(inode, {});
  } else if (place.missing_inode == nullptr) {
    note_failure(inode.watch, place.error);
  } else if (!place.missing_inode->is_top()) {
    drop(*place.missing_inode);
  } else if (!std::exchange(inode.watch.leads_elsewhere, true)) {
    failure_ = errc::watch_moved;
  }
  return true;
}

void watched_trees::note_failure(program_watch& watch, int error) noexcept {
  watch.failure = watch_error(error);
  if (watch.is_new) return;
  // A shortage is reported once, until a tree could be read again.
  if (is_shortage(error)) {
    has_lacked_resources_ = true;
    if (std::exchange(watch.lacked_resources, true)) return;
  }
  failure_ = watch.failure;
}

// ---- scans

void watched_trees::request(watched_inode& directory, scan_extent extent) {
  if (!directory.is_queued) scans_.push_back({.of = &directory});
  directory.is_queued = true;
  directory.want(extent);
}

void watched_trees::postpone(watched_inode& directory, scan_extent extent, int error) {
  directory.want(extent);
  if (is_absence(error)) {
    mark_unverified(directory);
  } else {
    note_failure(directory.watch, error);
  }
}

std::error_code watched_trees::read_whole(program_watch& tree) {
  tree.is_new = true;
  request(*tree.top, {});
  while (!scans_.empty()) read_entry();
  tree.is_new = false;
  return tree.failure;
}

void watched_trees::begin_again(program_watch& tree) {
  ++tree.generation;
  tree.failure.clear();
  tree.leads_elsewhere = false;
  tree.top->generation = tree.generation;
  if (std::ranges::find(rescans_, &tree) == rescans_.end()) rescans_.push_back(&tree);
  request(*tree.top, {.reports_new = true, .is_deep = true});
}

bool watched_trees::scan_next() {
  if (scans_.empty()) return drop_lost_inodes();
  read_entry();
  return true;
}

void watched_trees::read_entry() {
  scan& first = scans_.front();
  watched_inode& directory = *first.of;
  if (!first.entries.is_open()) {
    directory.is_queued = false;
    first.extent = std::exchange(directory.wanted_extent, std::nullopt).value_or(scan_extent{});
    auto fd = open(directory);
    if (!fd) {
      const scan_extent extent = first.extent;
      scans_.pop_front();
      postpone(directory, extent, fd.error());
      return;
    }
    first.entries = open_directory(std::move(*fd));
    if (first.extent.reports_all) {
      for (const auto& [name, child] : directory.children) child->is_unreported = true;
    }
    if (first.extent.reports_itself && !directory.is_top()) {
      report_created(*directory.parent, directory.name, true);
    }
  }
  const auto entry = first.entries.next();
  if (!entry || !*entry) {
    if (!entry) note_failure(directory.watch, entry.error().value());
    scans_.pop_front();
    return;
  }
  const std::string name = (*entry)->name;
  const bool is_directory = (*entry)->type == file_type::directory;
  const scan_extent extent = first.extent;
  if (extent.reports_all) report_created(directory, name, is_directory);
  if (!is_directory) return;
  const look now = enter(directory, first.entries.fd(), name, extent);
  if (now.is_new && extent.reports_new && !extent.reports_all) {
    report_created(directory, name, true);
  }
}

// Ends the watches of directories that the last scan of their tree has not found.
bool watched_trees::drop_lost_inodes() {
  if (rescans_.empty()) return false;
  program_watch& tree = *rescans_.back();
  rescans_.pop_back();
  if (tree.failure) return true;
  tree.lacked_resources = false;
  std::vector<watched_inode*> inodes{tree.top};
  std::vector<watched_inode*> lost_inodes;
  for (std::size_t index = 0; index < inodes.size(); ++index) {
    for (const auto& [name, child] : inodes[index]->children) {
      (child->generation == tree.generation ? inodes : lost_inodes).push_back(child);
    }
  }
  for (watched_inode* const inode : lost_inodes) drop(*inode);
  return true;
}

void watched_trees::report_created(const watched_inode& directory, std::string_view name,
                                   bool is_directory) {
  if (!contains(directory.watch.changes, file_change::created)) return;
  found_events_.push_back({.watch = directory.watch.id,
                           .kind = file_change::created,
                           .is_directory = is_directory,
                           .name = watched_inodes::path_of(directory, name)});
}

// ---- records

void watched_trees::come(watched_inode& directory, std::string_view name) {
  const look now = look_at(directory, name);
  if (now.inode != nullptr && std::exchange(now.inode->was_ended, false))
    report_again(*now.inode, false);
}

void watched_trees::leave(watched_inode& directory, std::string_view name) {
  watched_inode* const old_child = watched_inodes::child(directory, name, order::oldest);
  const look now = look_at(directory, name);
  end_name(directory, name, now);
  if (old_child == nullptr || now.inode == old_child) return;
  if (now.is_certain) {
    drop(*old_child);
  } else {
    mark_unverified(*old_child);
  }
}

bool watched_trees::move(watched_inode& source, std::string_view old_name, watched_inode& target,
                         std::string_view name) {
  watched_inode* inode = watched_inodes::child(source, old_name, order::oldest);
  if (inode != nullptr && watched_inodes::is_within(target, *inode)) inode = nullptr;
  const bool was_reported = inode != nullptr && is_reported(*inode);
  if (inode != nullptr) {
    inodes_.move(*inode, target, std::string(name), order::oldest);
    inode->is_unreported = inode->was_ended = false;
  }
  const look old_look = look_at(source, old_name);
  end_name(source, old_name, old_look);
  const look now = look_at(target, name);
  // A directory that was found early under the old name would have its entries mistaken for those
  // of the moved one.
  const bool was_alone = old_look.inode == nullptr || old_look.is_new;
  if (was_reported && was_alone && now.inode == inode) return true;
  if (inode != nullptr && now.inode != inode && old_look.inode != inode) {
    inode->is_lost = true;
    mark_unverified(*inode);
  }
  if (now.inode != nullptr && !now.is_new) report_again(*now.inode, false);
  return false;
}

void watched_trees::remove(watched_inode& directory, std::string_view name) {
  if (watched_inodes::child(directory, name, order::newest) == nullptr) return;
  end_name(directory, name, look_at(directory, name));
}

// Marks directories that were found under a name before the name's records arrived.
void watched_trees::end_name(watched_inode& directory, std::string_view name, const look& view) {
  for (const auto& [key, inode] : watched_inodes::named(directory, name)) {
    if (!view.is_new || view.inode != inode) inode->was_ended = true;
  }
}

// Returns whether the program knows the inode under its present name.
bool watched_trees::is_reported(const watched_inode& inode) noexcept {
  return !watched_inodes::any_on_way(inode, [](const watched_inode& ancestor) {
    return ancestor.is_unreported || ancestor.was_ended ||
           (ancestor.wanted_extent && ancestor.wanted_extent->reports_all);
  });
}

// Reports everything in a directory that was found before its records arrived, or was reported
// under a name that records have ended since.
void watched_trees::report_again(watched_inode& directory, bool with_itself) {
  request(
      directory,
      {.reports_itself = with_itself, .reports_all = true, .reports_new = true, .is_deep = true});
}

}  // namespace gyre::io::detail
