// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/process_threads.hpp>

#include <sys/stat.h>

namespace gyre::detail {

bool is_single_threaded() noexcept {
  // The directory has a link for each thread and two of its own. A listing of the directory would
  // be less sure: the system ends it early when a signal comes.
  constexpr ::nlink_t links_of_one_thread = 3;
  struct ::stat tasks{};
  return ::stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == links_of_one_thread;
}

}  // namespace gyre::detail
