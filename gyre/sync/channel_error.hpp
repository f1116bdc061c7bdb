// SPDX-License-Identifier: Apache-2.0
// channel_errc, channel_status: errors of channels, and results of attempts without waiting.
//
//     auto sent = co_await gyre::as_expected(jobs.send(job));
//     if (!sent && sent.error() == gyre::channel_errc::closed) co_return;  // nobody works any more
#pragma once

#include <system_error>
#include <type_traits>

namespace gyre {

/// Errors of channels and broadcasts.
enum class channel_errc {
  /// close() was called before the send, or while the send waited. Equal to std::errc::broken_pipe.
  closed = 1,
};

/// The result of an attempt to send or receive without waiting.
enum class channel_status : unsigned char {
  ok,
  full,    ///< not sent: there is no room, and no receiver waits
  empty,   ///< nothing received: there is no value, and no sender waits
  closed,  ///< not sent, or nothing is left to receive
};

/// Returns the category of channel_errc, "gyre.channel". Any thread.
const std::error_category& channel_error_category() noexcept;

inline std::error_code make_error_code(channel_errc error) noexcept {
  return {static_cast<int>(error), channel_error_category()};
}

}  // namespace gyre

template <>
struct std::is_error_code_enum<gyre::channel_errc> : std::true_type {};
