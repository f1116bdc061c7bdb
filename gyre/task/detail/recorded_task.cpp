// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/recorded_task.hpp>

#include <gyre/base/detail/fork_handlers.hpp>
#include <gyre/base/detail/system_clocks.hpp>
#include <gyre/task/detail/live_task_record.hpp>

#include <array>
#include <atomic>
#include <mutex>

namespace gyre::detail {

constinit std::atomic<bool> live_tasks_are_recorded{false};

namespace {

unsigned part_of_this_thread() noexcept {
  static constinit atomic<unsigned> threads{0};
  // relaxed: only the uniqueness of the numbers matters.
  thread_local const unsigned part =
      threads.fetch_add(1, std::memory_order_relaxed) % live_task_record_parts;
  return part;
}

}  // namespace

std::array<live_task_record_part, live_task_record_parts>& live_task_record() {
  // The record is never destroyed, because tasks may end while static objects are destroyed.
  static auto& parts = *new std::array<live_task_record_part, live_task_record_parts>;
  static constexpr auto unlock_all = [] {
    for (live_task_record_part& part : parts) part.mutex.unlock();
  };
  [[maybe_unused]] static const bool is_registered =
      add_fork_handlers({.before =
                             [] {
                               for (live_task_record_part& part : parts) part.mutex.lock();
                             },
                         .in_parent = unlock_all,
                         .in_child = unlock_all});
  return parts;
}

live_task_entry::live_task_entry(const executor& target, const char* name,
                                 std::source_location location, const live_task_details* details)
    : name_(name),
      location_(location),
      executor_(&target),
      details_(details),
      start_time_(last_tick()),
      part_(part_of_this_thread()) {
  live_task_record_part& part = live_task_record()[part_];
  const std::lock_guard lock(part.mutex);
  part.entries.push_back(*this);
}

live_task_entry::~live_task_entry() {
  const std::lock_guard lock(live_task_record()[part_].mutex);
  unlink();
}

}  // namespace gyre::detail
