// SPDX-License-Identifier: Apache-2.0
// io::errc: error codes of reading and writing beside those of std::errc.
//
//     auto read = co_await gyre::as_expected(stream.read_exactly(header));
//     if (!read && read.error() == gyre::io::errc::unexpected_end) co_return;  // it hung up
#pragma once

#include <system_error>
#include <type_traits>

namespace gyre::io {

enum class errc {
  /// The stream ended before all requested bytes had come.
  unexpected_end = 1,
  /// The delimiter does not come within the limit, or the frame is longer than the limit.
  limit_exceeded = 2,
  /// A connection moved no byte for its idle_timeout; also equal to std::errc::timed_out.
  idle_timeout = 3,
};

/// The category of errc, "gyre.io". Any thread.
const std::error_category& error_category() noexcept;

inline std::error_code make_error_code(errc error) noexcept {
  return {static_cast<int>(error), error_category()};
}

}  // namespace gyre::io

template <>
struct std::is_error_code_enum<gyre::io::errc> : std::true_type {};
