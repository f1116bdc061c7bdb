// SPDX-License-Identifier: Apache-2.0
// time_limit_errc: the error of work that was ended by a time limit.
//
//     auto reply = co_await gyre::as_expected(gyre::with_timeout(ask(server), 2s));
//     if (!reply && reply.error() == gyre::time_limit_errc::expired) ++too_slow;
#pragma once

#include <system_error>
#include <type_traits>

namespace gyre {

/// The errors of with_timeout(), and of a submission that waits for free capacity of a pool.
enum class time_limit_errc {
  /// The time limit of the call expired. Equal to std::errc::timed_out, as a connection's own
  /// time-out is.
  expired = 1,
};

/// Returns the category of time_limit_errc, "gyre.time_limit". May be called from any thread.
const std::error_category& time_limit_category() noexcept;

inline std::error_code make_error_code(time_limit_errc error) noexcept {
  return {static_cast<int>(error), time_limit_category()};
}

}  // namespace gyre

template <>
struct std::is_error_code_enum<gyre::time_limit_errc> : std::true_type {};
