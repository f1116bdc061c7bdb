// SPDX-License-Identifier: Apache-2.0
// inspector_options: the settings of an inspector.
#pragma once

#include <gyre/base/duration.hpp>

#include <chrono>
#include <cstddef>

namespace gyre::http {

/// Options of an inspector.
struct inspector_options {
  /// The longest wait for loops that are held: what the others have is shown then.
  duration limit = std::chrono::seconds{1};
  /// The maximum number of tasks, and of connections, in a response; at least 1. The oldest tasks
  /// are shown first. The parameter `limit` of a request may be lower, not higher.
  std::size_t max_entries = 1000;
  /// Whether to switch the record of live tasks on, for `/tasks`: some 40 ns for each task and
  /// request that begins afterwards. To see earlier tasks as well, call record_live_tasks() first
  /// of all in main().
  bool records_tasks = false;
};

}  // namespace gyre::http
