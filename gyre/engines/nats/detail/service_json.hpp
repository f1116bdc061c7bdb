// SPDX-License-Identifier: Apache-2.0
// The JSON of NATS' service protocol.
#pragma once

#include <gyre/engines/nats/detail/timestamp.hpp>
#include <gyre/engines/nats/service_info.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::nats::detail {

// Replies to $SRV.PING, INFO and STATS. Texts that are not UTF-8 get replacement characters.

std::string write_ping_reply(const service_info& info);
std::string write_info_reply(const service_info& info);
std::string write_stats_reply(const service_info& info, const std::vector<endpoint_stats>& stats,
                              timestamp start_time);

/// Reads a reply to $SRV.INFO. The result is empty for other texts.
std::optional<service_info> read_info_reply(std::string_view text);

}  // namespace gyre::nats::detail
