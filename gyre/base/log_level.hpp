// SPDX-License-Identifier: Apache-2.0
// log_level: which of gyre's own messages are printed, and a hook for the program's logger.
//
//     gyre::set_log_level(gyre::log_level::error);
//     gyre::set_log_writer([](gyre::log_level level, std::string_view message) noexcept {
//       std::clog << gyre::to_string(level) << ' ' << message << '\n';
//     });
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gyre {

/// The severity of a message, and the least severe one that is printed. gyre has few messages, and
/// none for each request: rates are metrics, and durations are in the flight recorder.
///
/// | level | messages |
/// |---|---|
/// | off | none |
/// | error | an exception of a handler that nothing else reports; pauses of accepting; connections that are refused because descriptors are used up; a trace that cannot be written |
/// | warning | reports of watchdogs; failed attempts of a tcp_client; io_uring that was required and is not available |
/// | info | files with the traces of slow requests |
///
/// Functions that a program sets for an event, such as on_hold or on_error, are called at every
/// level. The last words of a program that gyre ends by std::terminate() or std::abort(), because
/// it was used wrongly, and texts that the program or a debug signal asked for, are always printed.
enum class log_level : std::uint8_t { off, error, warning, info };

/// Returns the level: log_level::info at first. Any thread.
[[nodiscard]] log_level current_log_level() noexcept;
/// Sets the level for the whole program. Any thread; async-signal-safe.
void set_log_level(log_level level) noexcept;

/// Returns "off", "error", "warning" or "info".
[[nodiscard]] std::string_view to_string(log_level level) noexcept;
/// Returns the level that to_string() names so; nullopt for another text.
[[nodiscard]] std::optional<log_level> parse_log_level(std::string_view text) noexcept;

/// A function that gets each message that the level admits, without a line feed at its end. A
/// message may have several lines. Called on any thread, by several at once; must not block for
/// long, because some messages come from loops.
using log_writer = void (*)(log_level level, std::string_view message) noexcept;

/// Sets the function that writes messages for the whole program; null for the default, which writes
/// to stderr. A call of the previous writer may still be running on another thread. Any thread.
void set_log_writer(log_writer writer) noexcept;

}  // namespace gyre
