// SPDX-License-Identifier: Apache-2.0
// failure, fail: errors of the room, as values and thrown.
#pragma once

#include <expected>
#include <system_error>

namespace gyre::net::detail {

inline std::unexpected<std::error_code> failure(std::error_code error) noexcept {
  return std::unexpected(error);
}
inline std::unexpected<std::error_code> failure(std::errc error) noexcept {
  return failure(std::make_error_code(error));
}

/// Throws std::system_error.
[[noreturn, gnu::cold]] inline void fail(std::errc error, const char* what) {
  throw std::system_error(std::make_error_code(error), what);
}

}  // namespace gyre::net::detail
