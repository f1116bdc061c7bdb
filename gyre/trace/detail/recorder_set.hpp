// SPDX-License-Identifier: Apache-2.0
// recorder_set: the recorders of all threads of the process.
#pragma once

#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace gyre::trace::detail {

/// A copy of one thread's record.
struct thread_record {
  ::pid_t thread = 0;
  std::string name;
  bool has_ended = false;
  std::optional<activity_info> activity;
  std::vector<event> events;  ///< in the order of their beginnings
};

/// Copies the records of all threads, also of ended ones whose recorder no later thread has
/// adopted. Any thread; threads that record their first event meanwhile wait. Throws
/// std::bad_alloc.
std::vector<thread_record> copy_records();

/// Returns the activity of the thread with the kernel's id `thread`; nothing if it is in none, or
/// records no events. Any thread.
std::optional<activity_info> activity_of(::pid_t thread) noexcept;

/// Returns the number of recorders, which is the peak number of threads with one. Any thread.
std::size_t recorder_count() noexcept;

}  // namespace gyre::trace::detail
