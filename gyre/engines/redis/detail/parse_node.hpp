// SPDX-License-Identifier: Apache-2.0
// parse_node: a value of the protocols RESP2 and RESP3, without I/O.
#pragma once

#include <gyre/engines/redis/error.hpp>
#include <gyre/engines/redis/reply_node.hpp>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string_view>

namespace gyre::redis::detail {

/// A node, with the bytes that it takes without the values that follow it.
struct parsed_node : reply_node {
  std::size_t size = 0;
  bool is_attribute = false;  // whether this is a map of attributes; the value follows it
};

/// Parses the node at the front of `bytes`; std::nullopt while not all of its bytes are there.
/// Errors: bad_reply; reply_too_large for a text of more than `max_size` bytes, or as many values.
std::expected<std::optional<parsed_node>, errc> parse_node(std::string_view bytes,
                                                           std::size_t max_size) noexcept;

}  // namespace gyre::redis::detail
