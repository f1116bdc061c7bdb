// SPDX-License-Identifier: Apache-2.0
// live_tasks: the tasks that were started and have not ended, with name, place and age. Available
// in every build, and switched on while the program runs.
//
//     gyre::record_live_tasks(true);  // first of all in main()
//     gyre::spawn(loop, serve(std::move(connection)), {.name = "session"});
//     std::cerr << gyre::live_tasks_summary();  // when someone asks
#pragma once

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <limits>
#include <source_location>
#include <string>
#include <vector>

namespace gyre {

class executor;

/// The description of a task that had not ended when live_tasks() was called.
struct live_task {
  /// The name that was passed to spawn(), scope::spawn() and similar functions; empty if there was
  /// none. A handler of HTTP has its method and route as its name, such as `GET /users/{id}`.
  std::string name;
  /// The peer that a handler serves, such as `127.0.0.1:4711`; empty for other tasks.
  std::string peer;
  /// The call that started the task; its line is 0 if the task was not started by a call of the
  /// program.
  std::source_location from;
  /// The executor on which the task was started. Only to be compared, as the executor may have been
  /// destroyed.
  const executor* where = nullptr;
  /// The time since the task's start, with a precision of some 4 ms, the length of the kernel's
  /// clock tick.
  std::chrono::nanoseconds age{0};
  /// Whether the task has started; false while it waits in the queue of its executor.
  bool has_begun = false;

  /// Writes one line, such as `"session" from server.cpp:40, for 12.5 s`. Quotes, backslashes and
  /// control characters of a name, and bytes that are not UTF-8, are escaped.
  friend std::ostream& operator<<(std::ostream& output, const live_task& task);
};

/// Switches the record of started tasks on or off. Recorded are the tasks that spawn(),
/// spawn_future(), spawn_joinable(), a scope, a join_set, a runtime, a sync_wait(), an adapter or
/// an HTTP server starts from then on. A coroutine that handles HTTP is recorded until its response
/// has been sent, including the response's stream or upgraded connection. Children that their
/// parent awaits (when_all, when_any, fork, shared_task) are not recorded. A recorded task stays in
/// the record until it ends.
///
/// Thread-safety: may be called from any thread.
/// Complexity: while off, one load for each task or request that is started. While on, some 200
/// bytes from the slab and two short locks, about 40 ns for each task or request; no cost for its
/// awaits.
void record_live_tasks(bool is_enabled) noexcept;

/// Returns the recorded tasks that have not ended, at most `limit`, the oldest first.
///
/// Thread-safety: may be called from any thread. Tasks that start or end meanwhile may be missing.
/// Errors: std::bad_alloc.
/// Complexity: O(tasks * log(limit)). Starts and ends of one in sixteen tasks wait meanwhile.
std::vector<live_task> live_tasks(std::size_t limit = std::numeric_limits<std::size_t>::max());

/// Describes the recorded tasks that have not ended, for people: their number, then one line for
/// each name and place, beginning with the oldest task, such as `2 of "session" from server.cpp:40,
/// the oldest for 12.5 s, 1 has not begun`. Threads, errors and complexity are those of
/// live_tasks(), except that memory is needed only for the lines.
std::string live_tasks_summary();

}  // namespace gyre
