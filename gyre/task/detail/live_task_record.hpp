// SPDX-License-Identifier: Apache-2.0
// live_task_record: the record of live tasks, divided into parts with a lock each. See
// task/live_tasks.hpp.
#pragma once

#include <gyre/base/cache_line.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/task/detail/recorded_task.hpp>

#include <array>
#include <mutex>

namespace gyre::detail {

/// A part of the record: the tasks that some of the threads have started.
struct alignas(cache_line_size) live_task_record_part {
  std::mutex mutex;
  intrusive_list<live_task_entry> entries;  // ordered by their starts, approximately
};

inline constexpr unsigned live_task_record_parts = 16;

/// Returns all parts. fork(2) locks them meanwhile, so that the child process finds none locked.
std::array<live_task_record_part, live_task_record_parts>& live_task_record();

}  // namespace gyre::detail
