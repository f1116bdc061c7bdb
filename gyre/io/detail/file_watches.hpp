// SPDX-License-Identifier: Apache-2.0
// file_watches: the watches of an inotify instance, and the events it has read.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/exec/detail/readable_line.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/inotify_queue.hpp>
#include <gyre/io/detail/path_trail.hpp>
#include <gyre/io/detail/watched_inodes.hpp>
#include <gyre/io/detail/watched_trees.hpp>
#include <gyre/io/file_change.hpp>

#include <cstdint>
#include <deque>
#include <expected>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace gyre::io::detail {

/// Events pass through these stages; each stage is empty before the next one is read:
///
///     ready_events_ <── entries of new directories (trees_) <── records that were read <── the kernel
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
  enum class progress { some, none, awaits_other_part };

  bool remove_watch(file_watch watch) noexcept;
  void drop_steps(std::list<program_watch>& steps) noexcept;
  path_end follow_path(program_watch& watch);
  void follow_changed_paths();
  void follow_all_paths();
  void follow_again(program_watch& watch);
  void note_change(const watched_inode& inode, const inotify_record& record) noexcept;
  void read_trees_again();
  progress process_record();
  bool awaits_other_part() noexcept;
  void process_record(const inotify_record& record);
  void process_rename(const inotify_record& old_part, const inotify_record& new_part);
  void process_end(int watch_descriptor);
  void find_ended_watches();
  void collect_inodes(const inotify_record& part, std::vector<watched_inode*>& inodes);
  void report_event(const watched_inode& inode, file_change kind, const inotify_record& record,
                    std::string_view old_name = {});
  void retry_starved();
  void await_retry() noexcept;
  void wake_at(steady_time time) noexcept;
  static void on_timer(timer_operation& timer);

  event_loop& loop_;
  inotify_queue records_;
  std::map<file_watch, program_watch> watches_;
  std::uint32_t last_watch_ = 0;

  std::deque<file_event> ready_events_;
  watched_trees trees_;
  // The inodes that the present record concerns, collected because the table of inodes changes
  // while the record is processed. For a rename, the directories of the old name and of the new
  // one.
  std::vector<watched_inode*> sources_;
  std::vector<watched_inode*> targets_;
  bool has_lost_ = false;          // whether events were lost
  bool must_find_ended_ = false;   // whether the ends of watches may be among the lost events
  std::uint64_t record_ = 0;       // the number of the present record
  bool has_changed_path_ = false;  // whether a watch has must_follow set
  std::error_code failure_;        // the error of a watch that could not follow its path

  struct wake_timer : timer_operation {
    explicit wake_timer(file_watches& owner) noexcept : timer_operation(&on_timer), self(&owner) {}
    file_watches* self;
  };
  wake_timer timer_;
  std::optional<steady_time> pair_deadline_;  // limits the wait for the second part of a rename
  // The time to read again the trees that could not be read.
  std::optional<steady_time> retry_time_;
  line waits_;
};

}  // namespace gyre::io::detail
