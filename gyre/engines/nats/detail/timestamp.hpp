// SPDX-License-Identifier: Apache-2.0
// Times of day in JetStream's texts (RFC 3339), such as "2026-11-29T16:44:00.123456789Z".
#pragma once

#include <gyre/engines/nats/server_time.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace gyre::nats::detail {

using timestamp = server_time;

/// Parses a time as servers write it. Returns std::nullopt for other texts, and for times before
/// 1900 or after 2200: a server writes the year 1 for a time that is not set.
std::optional<timestamp> parse_timestamp(std::string_view text) noexcept;
/// Formats a time in UTC, with nine digits after the decimal point.
std::string format_timestamp(timestamp time);

}  // namespace gyre::nats::detail
