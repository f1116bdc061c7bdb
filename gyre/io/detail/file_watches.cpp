// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/file_watches.hpp>

#include <gyre/io/detail/file_operation.hpp>
#include <gyre/io/error.hpp>

#include <sys/inotify.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <utility>

namespace gyre::io::detail {
namespace {

// The longest wait for the second part of a rename. The kernel queues both parts within one system
// call, so the second follows after microseconds, unless its name is not watched.
constexpr std::chrono::milliseconds max_wait_for_other_part{10};
// The interval after which a tree, or the list of watches, that could not be read for lack of
// descriptors is read again.
constexpr std::chrono::milliseconds retry_interval{200};
// After this many entries, or records that no watch wants, the loop serves other handles first.
constexpr int steps_in_a_row = 256;

[[noreturn]] void throw_watch_error(std::error_code error, const std::string& path) {
  throw std::system_error(error, "gyre::io::file_watcher: watch " + path_in_message(path));
}

std::uint32_t mask_of(const file_watch_options& options) noexcept {
  using enum file_change;
  std::uint32_t mask = 0;
  const auto add = [&](file_change changes, std::uint32_t events) {
    if (contains(options.changes, changes)) mask |= events;
  };
  add(created, IN_CREATE);
  add(modified, IN_MODIFY);
  add(closed_after_write, IN_CLOSE_WRITE);
  add(attributes, IN_ATTRIB);
  add(removed, IN_DELETE | IN_DELETE_SELF);
  add(moved_from | moved_to | renamed, IN_MOVE | IN_MOVE_SELF);
  if (options.recursive) mask |= IN_CREATE | IN_MOVE;
  // The kernel refuses an empty set; the end of the watch is always reported.
  return mask != 0 ? mask : IN_DELETE_SELF;
}

}  // namespace

file_watches::file_watches(event_loop& loop)
    : loop_(loop),
      trees_(records_.fd(), ready_events_),
      timer_(*this),
      waits_(loop, records_.fd(), *this) {}

file_watches::~file_watches() { loop_.cancel_timer(timer_); }

// ---- watches

file_watch file_watches::add(const std::string& path, const file_watch_options& options) {
  if (path.contains('\0')) throw_watch_error(watch_error(EINVAL), path);
  if (options.by_name && options.recursive) {
    throw std::invalid_argument(
        "gyre::io::file_watcher: a watch is by name or recursive, not both");
  }
  if (path.empty()) throw_watch_error(watch_error(ENOENT), path);
  // Stores the absolute path: later directories are found by their paths, even after a chdir().
  std::filesystem::path absolute_path = std::filesystem::absolute(path);
  const auto id = static_cast<file_watch>(++last_watch_);
  program_watch settings{.id = id,
                         .path = absolute_path.native(),
                         .only_name = {},
                         .changes = options.changes,
                         .mask = mask_of(options),
                         .is_recursive = options.recursive};
  if (options.by_name) {
    settings.only_name = absolute_path.filename().native();
    settings.path = absolute_path.parent_path().native();
    if (settings.only_name.empty() || settings.only_name == "." || settings.only_name == "..") {
      throw std::invalid_argument(
          "gyre::io::file_watcher: a watch by name needs the name of a file at the end of its "
          "path");
    }
  }
  const bool follows_path = options.by_name && options.follow_symlink;
  const bool is_directory = options.by_name || options.recursive;
  const bool follows_symlink = options.follow_symlink || options.by_name;
  const std::uint32_t flags = (is_directory ? IN_ONLYDIR : 0U) |
                              (follows_symlink ? 0U : static_cast<std::uint32_t>(IN_DONT_FOLLOW));

  program_watch& watch = watches_.emplace(id, std::move(settings)).first->second;
  try {
    if (follows_path) {
      watch.path = absolute_path.native();
      const path_end end = follow_path(watch);
      if (end.error != 0 && !(end.is_missing() && end.has_directory)) {
        throw_watch_error(watch_error(end.error), watch.path);
      }
    } else if (const int error = trees_.watch_top(watch, flags); error != 0) {
      throw_watch_error(watch_error(error), watch.path);
    }
    if (watch.is_recursive) {
      const std::error_code failure = trees_.read_whole(watch);
      if (failure) throw_watch_error(failure, "the directories in " + watch.path);
    }
  } catch (...) {
    remove_watch(id);
    throw;
  }
  return id;
}

bool file_watches::remove(file_watch watch) noexcept {
  std::erase_if(ready_events_, [&](const file_event& event) { return event.watch == watch; });
  return remove_watch(watch);
}

bool file_watches::remove_watch(file_watch watch) noexcept {
  const auto entry = watches_.find(watch);
  if (entry == watches_.end()) return false;
  if (entry->second.top != nullptr) trees_.drop(*entry->second.top);
  drop_steps(entry->second.steps);
  watches_.erase(entry);
  return true;
}

void file_watches::read_trees_again() {
  for (auto& [id, watch] : watches_) {
    if (watch.is_recursive) trees_.begin_again(watch);
  }
}

// ---- records

std::optional<std::expected<file_event, std::error_code>> file_watches::try_take() noexcept {
  try {
    retry_starved();
    for (int step = 0; step < steps_in_a_row; ++step) {
      if (!ready_events_.empty()) {
        file_event event = std::move(ready_events_.front());
        ready_events_.pop_front();
        return event;
      }
      if (const std::error_code failure = trees_.take_failure()) return std::unexpected(failure);
      if (const std::error_code failure = std::exchange(failure_, {})) {
        return std::unexpected(failure);
      }
      if (has_lost_) {
        find_ended_watches();
        read_trees_again();
        follow_all_paths();
        has_lost_ = false;
        return file_event{.kind = file_change::overflowed};
      }
      if (trees_.scan_next()) continue;
      const progress outcome = process_record();
      if (outcome == progress::some) continue;
      if (outcome == progress::none) {
        if (trees_.verify_next()) continue;
        await_retry();
      }
      return std::nullopt;
    }
    serve_again();
    return std::nullopt;
  } catch (const std::system_error& error) {
    return std::unexpected(error.code());
  } catch (const std::bad_alloc&) {
    has_lost_ = true;
    return std::unexpected(std::make_error_code(std::errc::not_enough_memory));
  }
}

file_watches::progress file_watches::process_record() {
  if (records_.empty() && !records_.read()) return progress::none;
  std::optional<inotify_record> other;
  if ((records_.front_mask() & IN_MOVED_FROM) != 0) {
    other = records_.take_other_part();
    if (!other && records_.read()) other = records_.take_other_part();
    if (!other && records_.can_read() && awaits_other_part()) return progress::awaits_other_part;
    pair_deadline_.reset();
  }
  const inotify_record record = records_.take_front();
  ++record_;
  if (other) {
    process_rename(record, *other);
  } else {
    process_record(record);
  }
  follow_changed_paths();
  return progress::some;
}

bool file_watches::awaits_other_part() noexcept {
  if (!pair_deadline_) pair_deadline_ = loop_.deadline_after(max_wait_for_other_part);
  if (loop_.now() >= *pair_deadline_) return false;
  wake_at(*pair_deadline_);
  return true;
}

void file_watches::report_event(const watched_inode& inode, file_change kind,
                                const inotify_record& record, std::string_view old_name) {
  const program_watch& watch = inode.watch;
  if (!contains(watch.changes, kind)) return;
  if (watched_inodes::any_on_way(inode,
                                 [](const watched_inode& ancestor) { return ancestor.is_lost; }))
    return;
  const bool is_itself = record.name.empty();
  if (is_itself) {
    // The records of its parent report a directory in a tree. A watch by name concerns only the
    // name, which has left the directory when the directory moves.
    if (!inode.is_top()) return;
    if (!watch.only_name.empty() && kind != file_change::moved_from) return;
  } else if (!watch.only_name.empty() && record.name != watch.only_name) {
    return;
  }
  file_event event{.watch = watch.id,
                   .kind = kind,
                   .is_directory = (record.mask & IN_ISDIR) != 0,
                   .name = watch.only_name.empty() ? watched_inodes::path_of(inode, record.name)
                                                   : std::string()};
  if (contains(file_change::moved_from | file_change::moved_to, kind)) event.cookie = record.cookie;
  if (kind == file_change::renamed) event.old_name = old_name;
  ready_events_.push_back(std::move(event));
  if (watch.owner != nullptr) watch.owner->last_reported_record = record_;
}

void file_watches::process_record(const inotify_record& record) {
  if ((record.mask & IN_Q_OVERFLOW) != 0) {
    has_lost_ = true;
    return;
  }
  if ((record.mask & IN_IGNORED) != 0) return process_end(record.watch_descriptor);
  struct {
    std::uint32_t events;
    file_change kind;
  } constexpr kinds[] = {{IN_CREATE, file_change::created},
                         {IN_MODIFY, file_change::modified},
                         {IN_CLOSE_WRITE, file_change::closed_after_write},
                         {IN_ATTRIB, file_change::attributes},
                         {IN_DELETE | IN_DELETE_SELF, file_change::removed},
                         {IN_MOVED_FROM | IN_MOVE_SELF, file_change::moved_from},
                         {IN_MOVED_TO, file_change::moved_to}};
  trees_.inodes().collect(record.watch_descriptor, sources_);
  for (const watched_inode* const inode : sources_) {
    for (const auto& [events, kind] : kinds) {
      if ((record.mask & events) != 0) report_event(*inode, kind, record);
    }
    note_change(*inode, record);
  }
  if ((record.mask & IN_ISDIR) == 0 || record.name.empty()) return;
  for (watched_inode* const inode : sources_) {
    if (!inode->watch.is_recursive) continue;
    if ((record.mask & (IN_CREATE | IN_MOVED_TO)) != 0) {
      trees_.come(*inode, record.name);
    } else if ((record.mask & IN_MOVED_FROM) != 0) {
      trees_.leave(*inode, record.name);
    } else if ((record.mask & IN_DELETE) != 0) {
      trees_.remove(*inode, record.name);
    }
  }
}

// Collects the watched inodes that `part` concerns. A watch by name concerns only that name.
void file_watches::collect_inodes(const inotify_record& part, std::vector<watched_inode*>& inodes) {
  trees_.inodes().collect(part.watch_descriptor, inodes);
  std::erase_if(inodes, [&](const watched_inode* inode) {
    const std::string& only_name = inode->watch.only_name;
    return !only_name.empty() && only_name != part.name;
  });
}

void file_watches::process_rename(const inotify_record& old_part, const inotify_record& new_part) {
  const bool is_directory = (old_part.mask & IN_ISDIR) != 0;
  const auto in_watch_of = [](const watched_inode* inode) {
    return [inode](const watched_inode* other) { return &other->watch == &inode->watch; };
  };
  collect_inodes(old_part, sources_);
  collect_inodes(new_part, targets_);
  for (watched_inode* const source : sources_) {
    note_change(*source, old_part);
    const auto target = std::ranges::find_if(targets_, in_watch_of(source));
    const bool is_tree = is_directory && source->watch.is_recursive;
    if (target == targets_.end()) {
      report_event(*source, file_change::moved_from, old_part);
      if (is_tree) trees_.leave(*source, old_part.name);
      continue;
    }
    const std::string old_name = watched_inodes::path_of(*source, old_part.name);
    if (!is_tree || trees_.move(*source, old_part.name, **target, new_part.name)) {
      report_event(**target, file_change::renamed, new_part, old_name);
    } else {
      report_event(*source, file_change::moved_from, old_part);
      report_event(**target, file_change::moved_to, new_part);
    }
  }
  for (watched_inode* const target : targets_) {
    note_change(*target, new_part);
    if (std::ranges::any_of(sources_, in_watch_of(target))) continue;
    report_event(*target, file_change::moved_to, new_part);
    if (is_directory && target->watch.is_recursive) trees_.come(*target, new_part.name);
  }
}

// Ends a watch that the kernel has ended because its inode or file system is gone.
void file_watches::process_end(int watch_descriptor) {
  trees_.inodes().collect(watch_descriptor, sources_);
  for (watched_inode* const inode : sources_) {
    if (!inode->is_top()) {
      trees_.drop(*inode);
      continue;
    }
    const file_watch watch_id = inode->watch.id;
    if (program_watch* const owner = inode->watch.owner; owner != nullptr && owner->has_links) {
      trees_.drop(*inode);
      owner->must_follow = has_changed_path_ = true;
      continue;
    }
    remove_watch(watch_id);
    ready_events_.push_back({.watch = watch_id, .kind = file_change::unwatched});
  }
}

// Calls process_end() for watches whose last records may be lost. Directories in trees that are
// gone are found by the next scans of the trees.
void file_watches::find_ended_watches() {
  const auto live_descriptors = records_.descriptors();
  must_find_ended_ = !live_descriptors && is_shortage(live_descriptors.error());
  if (!live_descriptors) return;
  for (const int watch_descriptor : trees_.inodes().descriptors_of_tops()) {
    if (!std::ranges::binary_search(*live_descriptors, watch_descriptor))
      process_end(watch_descriptor);
  }
}

// ---- watches by name, whose paths may have links

void file_watches::drop_steps(std::list<program_watch>& steps) noexcept {
  for (program_watch& step : steps) {
    if (step.top != nullptr) trees_.drop(*step.top);
  }
  steps.clear();
}

path_end file_watches::follow_path(program_watch& watch) {
  constexpr std::uint32_t name_changes = IN_CREATE | IN_DELETE | IN_MOVE | IN_MOVE_SELF;
  std::list<program_watch> steps;
  path_end end;
  try {
    end = walk_path(watch.path, [&](const path_step& step) {
      const bool must_report = step.kind != path_step::role::link;
      steps.push_back({.id = watch.id,
                       .path = step.directory,
                       .only_name = step.name,
                       .changes = must_report ? watch.changes : file_change::none,
                       .mask = must_report ? watch.mask | name_changes : name_changes,
                       .is_recursive = false,
                       .owner = &watch});
      return trees_.watch_top(steps.back(), IN_ONLYDIR);
    });
  } catch (...) {
    drop_steps(steps);
    throw;
  }
  watch.file = end.file;
  // Without links the watch stays with its directory, wherever that is now.
  const bool keeps_directory = !watch.steps.empty() && !watch.has_links && !end.has_links;
  if (!keeps_directory) watch.steps.swap(steps);
  drop_steps(steps);  // last, so that directories of both paths stay watched
  watch.has_links = end.has_links;
  return end;
}

void file_watches::note_change(const watched_inode& inode, const inotify_record& record) noexcept {
  program_watch* const owner = inode.watch.owner;
  if (owner == nullptr) return;
  const bool is_name = record.name == inode.watch.only_name &&
                       (record.mask & (IN_CREATE | IN_DELETE | IN_MOVE)) != 0;
  const bool is_directory =
      record.name.empty() && (record.mask & IN_MOVE_SELF) != 0 && owner->has_links;
  if (is_name || is_directory) owner->must_follow = has_changed_path_ = true;
}

// Follows the paths on which a name has changed. Called after each record, when the inodes of the
// record are no longer needed.
void file_watches::follow_changed_paths() {
  if (!std::exchange(has_changed_path_, false)) return;
  for (auto& [id, watch] : watches_) {
    if (std::exchange(watch.must_follow, false)) follow_again(watch);
  }
}

// Follows a path again, and reports a file that has come there by a link. For a path without links,
// records report every change.
void file_watches::follow_again(program_watch& watch) {
  const auto file_before = watch.file;
  const bool had_links = watch.has_links;
  const path_end end = follow_path(watch);
  if (end.error != 0 && !end.is_missing()) failure_ = watch_error(end.error);
  if (watch.last_reported_record == record_ || end.file == file_before) return;
  if (!had_links && !end.has_links) return;
  const file_change kind = end.file ? file_change::moved_to : file_change::moved_from;
  if (contains(watch.changes, kind)) ready_events_.push_back({.watch = watch.id, .kind = kind});
}

// Follows all paths again, because records of links may be among the lost ones.
void file_watches::follow_all_paths() {
  ++record_;
  for (auto& [id, watch] : watches_) {
    if (watch.steps.empty()) continue;
    watch.last_reported_record = record_;  // the overflow event has reported this watch
    watch.must_follow = has_changed_path_ = true;
  }
  follow_changed_paths();
}

// ---- waits

void file_watches::retry_starved() {
  if (!retry_time_ || loop_.now() < *retry_time_) return;
  retry_time_.reset();
  if (must_find_ended_) {
    find_ended_watches();
    follow_changed_paths();
  }
  for (auto& [id, watch] : watches_) {
    if (watch.lacked_resources) trees_.begin_again(watch);
  }
}

void file_watches::await_retry() noexcept {
  if (trees_.take_lack_of_resources() || (must_find_ended_ && !retry_time_)) {
    retry_time_ = loop_.deadline_after(retry_interval);
  }
  if (retry_time_) wake_at(*retry_time_);
}

void file_watches::serve_again() noexcept {
  wake_at(loop_.deadline_after(std::chrono::nanoseconds::zero()));
}

void file_watches::wake_at(steady_time time) noexcept {
  loop_.cancel_timer(timer_);
  loop_.start_timer(timer_, time);
}

void file_watches::on_timer(timer_operation& timer) {
  static_cast<wake_timer&>(timer).self->waits_.serve();
}

}  // namespace gyre::io::detail
