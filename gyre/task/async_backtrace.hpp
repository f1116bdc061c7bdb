// SPDX-License-Identifier: Apache-2.0
// async_backtrace: the chain of awaits that leads to a coroutine, as a stack trace is the chain of
// calls of a thread. Recorded in Debug builds, and with the CMake option GYRE_ASYNC_BACKTRACE;
// empty in other builds.
//
//     std::cerr << co_await gyre::current_backtrace();
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/schedule.hpp>

#include <iosfwd>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace gyre {

/// Whether this build records backtraces.
inline constexpr bool async_backtrace_is_on = detail::records_backtraces;

namespace detail {

/// Appends to `text` a line for `frame` that begins with `indent`.
void append_frame(std::string& text, const std::source_location& frame, std::string_view indent);

}  // namespace detail

/// The awaits in which a coroutine and its callers are suspended, the innermost first, each with
/// function, file and line. After a child of when_all() or a scope comes the coroutine that waits
/// for the child, and so on to the coroutine that sync_wait() or spawn() started.
class async_backtrace {
 public:
  async_backtrace() = default;
  /// Takes the backtrace of `context`, whose coroutines must not run on other threads meanwhile.
  /// O(depth).
  explicit async_backtrace(const task_context& context);

  const std::vector<std::source_location>& frames() const noexcept { return frames_; }
  bool empty() const noexcept { return frames_.empty(); }
  /// Returns the name that spawn() or a scope was given for the innermost coroutine that has one;
  /// empty if none has.
  const std::string& name() const noexcept { return name_; }

  /// Returns one line for each frame, "  at function (file:line)".
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& output, const async_backtrace& trace);

 private:
  std::vector<std::source_location> frames_;
  std::string name_;
};

/// Awaited, returns the async_backtrace of the awaiting coroutine, without waiting.
[[nodiscard]] inline auto current_backtrace() noexcept {
  return detail::context_awaiter(
      [](const task_context& context) { return async_backtrace(context); });
}

}  // namespace gyre
