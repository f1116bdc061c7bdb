// SPDX-License-Identifier: Apache-2.0
// purge_options: the messages that jetstream::purge_stream() deletes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gyre::nats {

/// Without options, all messages of the stream. `sequence` and `keep` exclude each other.
struct purge_options {
  std::string_view subject = {};  ///< only messages of these subjects, such as "orders.*"
  std::optional<std::uint64_t> sequence = std::nullopt;  ///< only messages before this one
  std::optional<std::uint64_t> keep = std::nullopt;      ///< the newest messages that remain
};

}  // namespace gyre::nats
