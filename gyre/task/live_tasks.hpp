// SPDX-License-Identifier: Apache-2.0
// live_tasks: the tasks that were started and have not ended, with name, place and age; in every
// build, and switched on while the program runs.
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

/// A task that has not ended, as live_tasks() found it.
struct live_task {
  /// The name that was given to spawn(), scope::spawn() and the like; empty if none was. A handler
  /// of HTTP has its method and route as its name, such as `GET /users/{id}`.
  std::string name;
  /// The peer that a handler serves, such as `127.0.0.1:4711`; empty for other tasks.
  std::string peer;
  /// The call that started the task; its line is 0 if no call of the program did.
  std::source_location from;
  /// The executor on which it was started. Only to be compared: the executor may be gone.
  const executor* where = nullptr;
  /// The time since the start, to some 4 ms, the length of the kernel's clock tick.
  std::chrono::nanoseconds age{0};
  /// Whether the task has started; false while it waits in the queue of its executor.
  bool has_begun = false;

  /// One line, such as `"session" from server.cpp:40, for 12.5 s`.
  friend std::ostream& operator<<(std::ostream& out, const live_task& task);
};

/// Switches the record of started tasks on or off: of those that spawn(), spawn_future(),
/// spawn_joinable(), a scope, a join_set, a runtime, a sync_wait(), an adapter or an HTTP server
/// starts from then on. A handler of HTTP that is a coroutine is recorded until its response has
/// been handed over, with its stream or upgraded connection. Children that their parent awaits
/// (when_all, when_any, fork, shared_task) are not recorded. Tasks that are recorded stay so until
/// they end.
///
/// Thread-safety: any thread.
/// Complexity: off, one load for each task or request that is started. On, some 200 bytes from the
/// slab and two short locks, about 40 ns for each task or request; nothing for its awaits.
void record_live_tasks(bool enabled) noexcept;

/// The recorded tasks that have not ended, at most `limit`, the oldest first.
///
/// Thread-safety: any thread. Tasks that start or end meanwhile may be missing.
/// Errors: std::bad_alloc.
/// Complexity: O(tasks * log(limit)). The starts and ends of a sixteenth of the tasks wait
/// meanwhile.
std::vector<live_task> live_tasks(std::size_t limit = std::numeric_limits<std::size_t>::max());

/// The recorded tasks that have not ended in words, for people: their number, then a line for each
/// name and place, that with the oldest task first, such as
/// `2 of "session" from server.cpp:40, the oldest for 12.5 s, 1 has not begun`. Threads,
/// errors and complexity as of live_tasks(), but the memory is that of the lines.
std::string live_tasks_summary();

}  // namespace gyre
