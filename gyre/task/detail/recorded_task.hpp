// SPDX-License-Identifier: Apache-2.0
// record_if_enabled: adds a task to the record of live tasks until the task ends. See
// task/live_tasks.hpp.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/task.hpp>

#include <atomic>
#include <memory>
#include <source_location>
#include <utility>

namespace gyre {

class executor;
struct live_task;

namespace detail {

/// Whether tasks are recorded when they start. A std::atomic, not gyre's: the model checker need
/// not explore it, as it orders nothing.
extern std::atomic<bool> live_tasks_are_recorded;

/// The interface for the part of a live task's description that the task's entry cannot hold.
class live_task_details {
 public:
  /// Completes `description`. Called on any thread while the entry exists, so it may read only
  /// members that do not change.
  virtual void describe(live_task& description) const = 0;

 protected:
  ~live_task_details() = default;
};

/// The entry of a task in the record.
class live_task_entry : public slab_object, public intrusive_list_node {
 public:
  /// Adds the entry to the record. `location` may be empty, if the place is not known. `details`
  /// may be null.
  live_task_entry(const executor& target, const char* name, std::source_location location,
                  const live_task_details* details = nullptr);
  live_task_entry(const live_task_entry&) = delete;
  live_task_entry& operator=(const live_task_entry&) = delete;
  ~live_task_entry();

  // relaxed: the flag is only shown to people.
  void begin() noexcept { has_begun_.store(true, std::memory_order_relaxed); }
  bool has_begun() const noexcept { return has_begun_.load(std::memory_order_relaxed); }

  const char* name() const noexcept { return name_; }  ///< null if the task has no name
  const std::source_location& location() const noexcept { return location_; }
  const executor* task_executor() const noexcept { return executor_; }
  const live_task_details* details() const noexcept { return details_; }
  steady_time started() const noexcept { return start_time_; }

 private:
  const char* const name_;
  const std::source_location location_;
  const executor* const executor_;
  const live_task_details* const details_;
  const steady_time start_time_;
  const unsigned part_;  // the index of the record's part that holds the entry
  atomic<bool> has_begun_{false};
};

// Returns whether tasks are recorded when they start. relaxed: the flag orders no other data.
inline bool records_live_tasks() noexcept {
  return live_tasks_are_recorded.load(std::memory_order_relaxed);
}

/// Makes an entry for work that begins now and is not a task; returns null unless tasks are
/// recorded.
inline std::unique_ptr<live_task_entry> entry_if_asked(const executor& target, const char* name,
                                                       std::source_location location) {
  if (!records_live_tasks()) [[likely]]
    return nullptr;
  auto entry = std::make_unique<live_task_entry>(target, name, location);
  entry->begin();
  return entry;
}

/// Runs `work`, and removes `entry` from the record when `work` ends.
template <class T>
task<T> record_until_end(task<T> work, std::unique_ptr<live_task_entry> entry) {
  entry->begin();
  co_await await_ready_state(work);
  co_return co_await take_result(work);
}

template <class T>
[[gnu::cold, gnu::noinline]] void add_to_record(task<T>& work, const executor& target,
                                                const char* name, std::source_location location) {
  if (!work.valid()) return;
  work =
      record_until_end(std::move(work), std::make_unique<live_task_entry>(target, name, location));
}

/// Adds `work`, which is about to start on `target`, to the record if tasks are recorded.
template <class T>
void record_if_enabled(task<T>& work, const executor& target, const char* name,
                       std::source_location location) {
  if (records_live_tasks()) [[unlikely]]
    add_to_record(work, target, name, location);
}

}  // namespace detail
}  // namespace gyre
