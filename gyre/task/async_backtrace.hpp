// SPDX-License-Identifier: Apache-2.0
// async_backtrace: the chain of awaits above a coroutine, as a stack trace is the chain of calls of
// a thread. Recorded in Debug builds, and with the CMake option GYRE_ASYNC_BACKTRACE; else empty.
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

/// Appends a line that begins with `indent`.
void append_frame(std::string& text, const std::source_location& frame, std::string_view indent);

}  // namespace detail

/// The awaits in which a coroutine and its callers are suspended, the innermost first, each with
/// function, file and line. A child of when_all() or a scope is followed by the coroutine that
/// waits for it, up to the one that sync_wait() or spawn() started.
class async_backtrace {
 public:
  async_backtrace() = default;
  /// The backtrace of `context`, whose coroutines must not run on other threads meanwhile.
  /// O(depth).
  explicit async_backtrace(const task_context& context);

  const std::vector<std::source_location>& frames() const noexcept { return frames_; }
  bool empty() const noexcept { return frames_.empty(); }
  /// The name that spawn() or a scope gave the outermost coroutine that has one; empty if none has.
  const std::string& name() const noexcept { return name_; }

  /// One line for each frame, "  at function (file:line)".
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const async_backtrace& trace);

 private:
  std::vector<std::source_location> frames_;
  std::string name_;
};

/// Awaited, gives the async_backtrace of the coroutine itself, without waiting.
[[nodiscard]] inline auto current_backtrace() noexcept {
  return detail::context_awaiter(
      [](const task_context& context) { return async_backtrace(context); });
}

}  // namespace gyre
