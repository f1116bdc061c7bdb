// SPDX-License-Identifier: Apache-2.0
// How a wait that was asked to stop ends.
#pragma once

#include <exception>
#include <system_error>

namespace gyre::detail {

/// Throws what every cancelled wait throws: std::system_error, std::errc::operation_canceled.
[[noreturn, gnu::cold]] void throw_cancelled();

/// Throws std::system_error for `error`.
[[noreturn, gnu::cold]] void throw_error(std::errc error);

/// Whether `error` says that a wait was cancelled. Catches it, so costs what a throw costs.
[[gnu::cold]] bool is_cancelled(const std::exception_ptr& error) noexcept;
inline bool is_cancelled(const std::system_error& error) noexcept {
  return error.code() == std::errc::operation_canceled;
}

}  // namespace gyre::detail
