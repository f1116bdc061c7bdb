// SPDX-License-Identifier: Apache-2.0
// stream_entry: an entry of a stream of Redis, as a reply.
//
//     auto id = co_await cache.call<std::string>("XADD", "orders", "*", "item", "tea");
//     auto orders = co_await cache.call<gyre::redis::stream_entries>("XRANGE", "orders", "-", "+");
//     auto unread = co_await cache.call<std::optional<gyre::redis::streams>>(
//         "XREAD", "COUNT", 10, "STREAMS", "orders", "0");
#pragma once

#include <gyre/engines/redis/reply_cursor.hpp>
#include <gyre/engines/redis/reply_traits.hpp>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::redis {

/// The reply of XRANGE, XREVRANGE and XCLAIM is an array of these.
struct stream_entry {
  std::string id;
  /// The fields in the order in which XADD got them; names may repeat.
  std::vector<std::pair<std::string, std::string>> fields;
  /// Whether the entry was deleted, but is still pending in its group: it has no fields.
  bool is_deleted = false;

  /// Returns the value of the first field of this name, or null.
  [[nodiscard]] const std::string* find(std::string_view name) const noexcept;

  friend bool operator==(const stream_entry&, const stream_entry&) = default;
};

/// The entries of a stream, in the order of their ids.
using stream_entries = std::vector<stream_entry>;
/// The reply of XREAD and XREADGROUP: the new entries of each stream that has some. A std::optional
/// of it is empty if no stream has any.
using streams = std::map<std::string, stream_entries>;

template <>
struct reply_traits<stream_entry> {
  static stream_entry read(reply_cursor& values);
};

}  // namespace gyre::redis
