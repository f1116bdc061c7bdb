// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/file_watches.hpp>

#include <gyre/io/error.hpp>

#include <sys/inotify.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <stdexcept>
#include <utility>

namespace gyre::io::detail {
namespace {

// The kernel queues both parts of a rename within one system call, so the second follows the first
// after microseconds, unless its name is not watched.
constexpr std::chrono::milliseconds longest_wait_for_other_part{10};
// After so many records that no watch asks for, the loop serves others first.
constexpr int steps_in_a_row = 1024;

std::error_code watch_error(int number) noexcept {
  if (number == ENOSPC) return errc::watch_limit;
  return {number, std::system_category()};
}

[[noreturn]] void throw_watch_error(std::error_code error, const std::string& path) {
  throw std::system_error(error, "gyre::io::file_watcher: watch " + path);
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
  // The kernel refuses an empty set; the end of the watch is reported unasked.
  return mask != 0 ? mask : IN_DELETE_SELF;
}

std::string joined(std::string_view directory, std::string_view name) {
  std::string path;
  path.reserve(directory.size() + 1 + name.size());
  path += directory;
  if (!directory.empty() && !name.empty() && directory.back() != '/') path += '/';
  path += name;
  return path;
}

// Whether `path` is `directory`, or below it.
bool is_within(std::string_view path, std::string_view directory) noexcept {
  if (!path.starts_with(directory)) return false;
  return path.size() == directory.size() || path[directory.size()] == '/';
}

}  // namespace

file_watches::file_watches(event_loop& loop)
    : loop_(loop), timer_(*this), waits_(loop, records_.fd(), *this) {}

file_watches::~file_watches() { loop_.cancel_timer(timer_); }

// ---- watches

file_watch file_watches::add(const std::string& path, const file_watch_options& options) {
  if (path.find('\0') != std::string::npos) {
    throw std::invalid_argument("gyre::io::file_watcher: the path has a null character");
  }
  if (options.by_name && options.recursive) {
    throw std::invalid_argument(
        "gyre::io::file_watcher: a watch is by name or recursive, not both");
  }
  if (path.empty()) throw_watch_error(watch_error(ENOENT), path);
  // Later directories are found by their paths, also after a chdir().
  std::filesystem::path place = std::filesystem::absolute(path);
  root added{.path = place.native(),
             .only = {},
             .changes = options.changes,
             .mask = mask_of(options),
             .recursive = options.recursive};
  if (options.by_name) {
    added.only = place.filename().native();
    added.path = place.parent_path().native();
    if (added.only.empty() || added.only == "." || added.only == "..") {
      throw std::invalid_argument(
          "gyre::io::file_watcher: a watch by name needs the name of a file at the end of its "
          "path");
    }
  }
  const bool is_directory = options.by_name || options.recursive;
  const bool follows = options.follow_symlink || options.by_name;
  const std::uint32_t flags = (is_directory ? IN_ONLYDIR : 0U) |
                              (follows ? 0U : static_cast<std::uint32_t>(IN_DONT_FOLLOW));

  const auto watch = static_cast<file_watch>(++last_watch_);
  const root& kept = roots_.emplace(watch, std::move(added)).first->second;
  try {
    watch_root(watch, kept, flags);
  } catch (...) {
    remove(watch);
    throw;
  }
  return watch;
}

void file_watches::watch_root(file_watch watch, const root& added, std::uint32_t flags) {
  const int number =
      ::inotify_add_watch(records_.fd(), added.path.c_str(), added.mask | flags | IN_MASK_ADD);
  if (number < 0) throw_watch_error(watch_error(errno), added.path);
  subscriptions_[number].push_back({watch, {}});
  if (!added.recursive) return;
  scan_queue scans;
  scans.push_back({watch, {}, false});
  const std::error_code before = std::exchange(failure_, {});
  scan_all(scans);
  const std::error_code failed = std::exchange(failure_, before);
  if (failed) throw_watch_error(failed, "the directories in " + added.path);
}

bool file_watches::remove(file_watch watch) noexcept {
  std::erase_if(ready_, [&](const file_event& each) { return each.watch == watch; });
  return forget(watch);
}

bool file_watches::forget(file_watch watch) noexcept {
  if (roots_.erase(watch) == 0) return false;
  unsubscribe([&](const subscription& each) { return each.watch == watch; });
  std::erase_if(scans_, [&](const scan& each) { return each.watch == watch; });
  return true;
}

template <class Predicate>
void file_watches::unsubscribe(Predicate leaves) noexcept {
  for (auto entry = subscriptions_.begin(); entry != subscriptions_.end();) {
    auto& [number, all] = *entry;
    std::erase_if(all, leaves);
    if (!all.empty()) {
      ++entry;
      continue;
    }
    // Fails if the kernel has ended the watch; the record of that is then ignored.
    ::inotify_rm_watch(records_.fd(), number);
    entry = subscriptions_.erase(entry);
  }
}

void file_watches::leave_directory(file_watch watch, const std::string& directory) noexcept {
  unsubscribe([&](const subscription& each) {
    return each.watch == watch && is_within(each.directory, directory);
  });
  std::erase_if(scans_, [&](const scan& each) {
    return each.watch == watch && is_within(each.directory, directory);
  });
}

void file_watches::rename_directory(file_watch watch, const std::string& from,
                                    const std::string& to) {
  const auto rename = [&](auto& each) {
    if (each.watch == watch && is_within(each.directory, from)) {
      each.directory.replace(0, from.size(), to);
    }
  };
  for (auto& [number, all] : subscriptions_) std::ranges::for_each(all, rename);
  std::ranges::for_each(scans_, rename);
}

// A directory that is gone, or is none any more, needs no watch.
void file_watches::watch_directory(file_watch watch, const std::string& directory, bool is_reported,
                                   scan_queue& scans) {
  const root& whole = roots_.at(watch);
  const int number = ::inotify_add_watch(records_.fd(), joined(whole.path, directory).c_str(),
                                         whole.mask | IN_ONLYDIR | IN_DONT_FOLLOW | IN_MASK_ADD);
  if (number < 0) {
    if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) failure_ = watch_error(errno);
    return;
  }
  std::vector<subscription>& all = subscriptions_[number];
  const auto known = std::ranges::find(all, watch, &subscription::watch);
  if (known != all.end()) {
    // It may have been renamed since: the path is the newest.
    known->directory = directory;
    return;
  }
  all.push_back({watch, directory});
  scans.push_back({watch, directory, is_reported});
}

void file_watches::scan_all(scan_queue& scans) {
  while (scan_entry(scans)) continue;
}

// False if there is none left.
bool file_watches::scan_entry(scan_queue& scans) {
  if (scans.empty()) return false;
  scan& present = scans.front();
  const root& whole = roots_.at(present.watch);
  std::error_code error;
  if (!present.at) {
    present.at.emplace(joined(whole.path, present.directory), error);
    if (error && error != std::errc::no_such_file_or_directory &&
        error != std::errc::not_a_directory) {
      failure_ = error;
    }
  }
  if (error || *present.at == std::filesystem::directory_iterator()) {
    scans.pop_front();
    return true;
  }
  const std::filesystem::directory_entry& entry = **present.at;
  const std::string name = joined(present.directory, entry.path().filename().native());
  const bool is_directory =
      entry.symlink_status(error).type() == std::filesystem::file_type::directory;
  const file_watch watch = present.watch;
  const bool is_reported = present.is_reported;
  present.at->increment(error);  // becomes the end on error
  if (is_reported && contains(whole.changes, file_change::created)) {
    ready_.push_back(
        {.watch = watch, .kind = file_change::created, .is_directory = is_directory, .name = name});
  }
  if (is_directory) watch_directory(watch, name, is_reported, scans);
  return true;
}

// Before the program hears of the loss: it looks at the files then, and must not miss a change that
// comes later.
void file_watches::watch_trees_again() {
  scan_queue scans;
  for (const auto& [watch, whole] : roots_) {
    if (whole.recursive) scans.push_back({watch, {}, false});
  }
  scans_.clear();
  unsubscribe([&](const subscription& each) { return !each.directory.empty(); });
  scan_all(scans);
}

// ---- records

std::optional<std::expected<file_event, std::error_code>> file_watches::try_take() noexcept {
  try {
    for (int step = 0; step < steps_in_a_row; ++step) {
      if (!ready_.empty()) {
        file_event next = std::move(ready_.front());
        ready_.pop_front();
        return next;
      }
      if (failure_) return std::unexpected(std::exchange(failure_, {}));
      if (has_lost_) {
        watch_trees_again();
        has_lost_ = false;
        return file_event{.kind = file_change::overflowed};
      }
      if (scan_entry(scans_)) continue;
      if (!process_records()) return std::nullopt;
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

// Processes one record. False if there is none, or its other part is missing.
bool file_watches::process_records() {
  if (records_.empty() && !records_.read()) return false;
  std::optional<inotify_record> other;
  if ((records_.front_mask() & IN_MOVED_FROM) != 0) {
    other = records_.take_other_part();
    if (!other && records_.read()) other = records_.take_other_part();
    if (!other && records_.has_room() && awaits_other_part()) return false;
    pair_deadline_.reset();
  }
  const inotify_record next = records_.take_front();
  if (other) {
    process_rename(next, *other);
  } else {
    process(next);
  }
  return true;
}

bool file_watches::awaits_other_part() noexcept {
  if (!pair_deadline_) pair_deadline_ = loop_.deadline_after(longest_wait_for_other_part);
  if (loop_.now() >= *pair_deadline_) return false;
  loop_.cancel_timer(timer_);
  loop_.start_timer(timer_, *pair_deadline_);
  return true;
}

const std::vector<file_watches::subscription>& file_watches::subscriptions(
    int number) const noexcept {
  static const std::vector<subscription> none;
  const auto found = subscriptions_.find(number);
  return found != subscriptions_.end() ? found->second : none;
}

void file_watches::report(const subscription& to, file_change kind, const inotify_record& about,
                          std::string_view old_name) {
  const root& whole = roots_.at(to.watch);
  if (!contains(whole.changes | file_change::unwatched, kind)) return;
  // The directory of a tree reports itself, too, and of a watch by name only the name matters.
  const bool is_itself = about.name.empty();
  if (is_itself && (!to.directory.empty() || !whole.only.empty())) {
    if (kind != file_change::unwatched) return;
  }
  if (!is_itself && !whole.only.empty() && about.name != whole.only) return;
  file_event event{.watch = to.watch,
                   .kind = kind,
                   .is_directory = (about.mask & IN_ISDIR) != 0,
                   .name = whole.only.empty() ? joined(to.directory, about.name) : std::string()};
  if (contains(file_change::moved_from | file_change::moved_to, kind)) event.cookie = about.cookie;
  if (kind == file_change::renamed) event.old_name = old_name;
  ready_.push_back(std::move(event));
}

void file_watches::process(const inotify_record& read) {
  if ((read.mask & IN_Q_OVERFLOW) != 0) {
    has_lost_ = true;
    return;
  }
  if ((read.mask & IN_IGNORED) != 0) return process_end(read);
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
  std::vector<subscription> trees;  // that a directory has come to, or left
  for (const subscription& each : subscriptions(read.number)) {
    for (const auto& [events, kind] : kinds) {
      if ((read.mask & events) != 0) report(each, kind, read);
    }
    if ((read.mask & IN_ISDIR) != 0 && !read.name.empty() && roots_.at(each.watch).recursive) {
      trees.push_back({each.watch, joined(each.directory, read.name)});
    }
  }
  for (const auto& [watch, directory] : trees) {
    if ((read.mask & (IN_CREATE | IN_MOVED_TO)) != 0) {
      watch_directory(watch, directory, true, scans_);
    } else if ((read.mask & IN_MOVED_FROM) != 0) {
      leave_directory(watch, directory);
    }
  }
}

void file_watches::process_rename(const inotify_record& from, const inotify_record& to) {
  struct move {
    file_watch watch;
    std::optional<std::string> from;
    std::optional<std::string> to;
  };
  std::vector<move> moves;  // of a directory in trees
  const bool is_directory = (from.mask & IN_ISDIR) != 0;
  const auto& sources = subscriptions(from.number);
  const auto& targets = subscriptions(to.number);
  const auto concerns = [&](const subscription& each, const inotify_record& part) {
    const std::string& only = roots_.at(each.watch).only;
    return only.empty() || only == part.name;
  };
  const auto counterpart = [&](const auto& all, const subscription& each,
                               const inotify_record& part) {
    const auto found = std::ranges::find(all, each.watch, &subscription::watch);
    return found != all.end() && concerns(*found, part) ? &*found : nullptr;
  };
  for (const subscription& each : sources) {
    if (!concerns(each, from)) continue;
    const subscription* const target = counterpart(targets, each, to);
    const std::string old_name = joined(each.directory, from.name);
    if (target == nullptr) {
      report(each, file_change::moved_from, from);
    } else {
      report(*target, file_change::renamed, to, old_name);
    }
    if (!is_directory || !roots_.at(each.watch).recursive) continue;
    move& added = moves.emplace_back(move{each.watch, old_name, std::nullopt});
    if (target != nullptr) added.to = joined(target->directory, to.name);
  }
  for (const subscription& each : targets) {
    if (!concerns(each, to) || counterpart(sources, each, from) != nullptr) continue;
    report(each, file_change::moved_to, to);
    if (is_directory && roots_.at(each.watch).recursive) {
      moves.push_back({each.watch, std::nullopt, joined(each.directory, to.name)});
    }
  }
  for (const move& each : moves) {
    if (each.from && each.to) rename_directory(each.watch, *each.from, *each.to);
    if (each.from && !each.to) leave_directory(each.watch, *each.from);
    // After a rename, too: it may not have been watched yet.
    if (each.to) watch_directory(each.watch, *each.to, true, scans_);
  }
}

// The kernel has ended its watch: the inode or its file system is gone.
void file_watches::process_end(const inotify_record& read) {
  const auto found = subscriptions_.find(read.number);
  if (found == subscriptions_.end()) return;
  const std::vector<subscription> ended = std::move(found->second);
  subscriptions_.erase(found);
  for (const subscription& each : ended) {
    if (!each.directory.empty()) continue;
    forget(each.watch);
    ready_.push_back({.watch = each.watch, .kind = file_change::unwatched});
  }
}

// ---- waits

void file_watches::serve_again() noexcept {
  loop_.cancel_timer(timer_);
  loop_.start_timer(timer_, loop_.deadline_after(std::chrono::nanoseconds::zero()));
}

void file_watches::on_timer(timer_operation& expired) {
  static_cast<wake_timer&>(expired).self->waits_.serve();
}

}  // namespace gyre::io::detail
