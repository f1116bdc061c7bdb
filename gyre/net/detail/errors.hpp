// SPDX-License-Identifier: Apache-2.0
// failure, cancelled, no_memory, code_of, require, fail: the room's errors, as values and thrown.
// require_loops: the check of a server's loops.
// take_until, next_word: words in its texts.
#pragma once

#include <gyre/base/detail/error_code_of.hpp>

#include <algorithm>
#include <exception>
#include <expected>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre {
class event_loop;
}  // namespace gyre

namespace gyre::net::detail {

inline std::unexpected<std::error_code> failure(std::error_code error) noexcept {
  return std::unexpected(error);
}
inline std::unexpected<std::error_code> failure(std::errc error) noexcept {
  return failure(std::make_error_code(error));
}

inline std::error_code cancelled() noexcept {
  return std::make_error_code(std::errc::operation_canceled);
}
inline std::error_code no_memory() noexcept {
  return std::make_error_code(std::errc::not_enough_memory);
}

/// Returns the code of an exception; std::errc::protocol_error for an exception without a code, as
/// for a layer that fails without an error.
inline std::error_code code_of(const std::exception_ptr& error) noexcept {
  return gyre::detail::error_code_of(error, std::make_error_code(std::errc::protocol_error));
}

/// Throws std::invalid_argument with the text `message` unless `is_sensible` is true.
inline void require(bool is_sensible, const char* message) {
  if (!is_sensible) [[unlikely]]
    throw std::invalid_argument(message);
}
/// Throws std::invalid_argument, whose text begins with `server`, if there is no loop or one is
/// null.
inline void require_loops(std::span<event_loop* const> loops, const std::string& server) {
  require(!loops.empty(), (server + ": at least one loop is needed").c_str());
  require(std::ranges::count(loops, nullptr) == 0, (server + ": a loop is null").c_str());
}
/// Throws std::system_error of `error`.
[[noreturn, gnu::cold]] inline void fail(std::error_code error, const char* message) {
  throw std::system_error(error, message);
}
[[noreturn, gnu::cold]] inline void fail(std::errc error, const char* message) {
  fail(std::make_error_code(error), message);
}

/// Removes the text before the first character of `delimiters` and returns it; removes that
/// character, too.
inline std::string_view take_until(std::string_view& text, std::string_view delimiters) noexcept {
  const std::size_t end = text.find_first_of(delimiters);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

/// Removes the first word of a line and returns it; empties a line without words.
inline std::string_view next_word(std::string_view& line) noexcept {
  constexpr std::string_view blank = " \t\r\v\f";
  line.remove_prefix(std::min(line.find_first_not_of(blank), line.size()));
  return take_until(line, blank);
}

}  // namespace gyre::net::detail
