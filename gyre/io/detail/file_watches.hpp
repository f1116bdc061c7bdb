// SPDX-License-Identifier: Apache-2.0
// file_watches: the watches of an inotify instance, and the events it has read.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/exec/detail/readable_line.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/inotify_queue.hpp>
#include <gyre/io/file_change.hpp>

#include <cstdint>
#include <deque>
#include <expected>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <vector>

namespace gyre::io::detail {

/// The kernel watches inodes: two watches that concern one directory share its number there. So
/// each number has subscriptions, and each event goes to those it concerns. A recursive watch has a
/// subscription for each directory.
///
/// Events go through these stages; each is empty before the next one is used:
///
///     ready_ <── entries of new directories (scans_) <── records that were read <── the kernel
///
/// Thread-safety: the loop's thread.
class file_watches : public gyre::detail::slab_object {
 public:
  using line = gyre::detail::readable_line<file_watches, file_event>;
  using wait = gyre::detail::readable_wait<file_watches, file_event>;
  static constexpr const char* wait_name = "gyre::io::file_watcher: next";

  explicit file_watches(event_loop& loop);
  file_watches& operator=(file_watches&&) = delete;
  ~file_watches();

  file_watch add(const std::string& path, const file_watch_options& options);
  bool remove(file_watch watch) noexcept;

  line& waits() noexcept { return waits_; }
  std::optional<std::expected<file_event, std::error_code>> try_take() noexcept;
  void serve_again() noexcept;

 private:
  /// A watch of the program.
  struct root {
    std::string path;  // absolute
    std::string only;  // the name that a watch by name concerns
    file_change changes;
    std::uint32_t mask;  // of inotify
    bool recursive;
  };
  struct subscription {
    file_watch watch;
    std::string directory;  // relative to the root, which is empty
  };
  /// A directory whose entries may not be watched yet.
  struct scan {
    file_watch watch;
    std::string directory;
    bool is_reported;  // its entries are new
    std::optional<std::filesystem::directory_iterator> at = {};
  };
  using scan_queue = std::deque<scan>;

  void watch_root(file_watch watch, const root& added, std::uint32_t flags);
  void watch_directory(file_watch watch, const std::string& directory, bool is_reported,
                       scan_queue& scans);
  void scan_all(scan_queue& scans);
  bool scan_entry(scan_queue& scans);
  void watch_trees_again();
  bool forget(file_watch watch) noexcept;
  template <class Predicate>
  void unsubscribe(Predicate leaves) noexcept;
  void leave_directory(file_watch watch, const std::string& directory) noexcept;
  void rename_directory(file_watch watch, const std::string& from, const std::string& to);

  bool process_records();
  bool awaits_other_part() noexcept;
  void process(const inotify_record& read);
  void process_rename(const inotify_record& from, const inotify_record& to);
  void process_end(const inotify_record& read);
  void report(const subscription& to, file_change kind, const inotify_record& about,
              std::string_view old_name = {});
  const std::vector<subscription>& subscriptions(int number) const noexcept;
  static void on_timer(timer_operation& expired);

  event_loop& loop_;
  inotify_queue records_;
  std::map<file_watch, root> roots_;
  std::unordered_map<int, std::vector<subscription>> subscriptions_;
  std::uint32_t last_watch_ = 0;

  std::deque<file_event> ready_;
  scan_queue scans_;
  std::error_code failure_;  // a directory could not be watched
  bool has_lost_ = false;    // events were lost

  struct wake_timer : timer_operation {
    explicit wake_timer(file_watches& owner) noexcept : timer_operation(&on_timer), self(&owner) {}
    file_watches* self;
  };
  wake_timer timer_;
  std::optional<steady_time> pair_deadline_;  // of the first record, a rename's first part
  line waits_;
};

}  // namespace gyre::io::detail
