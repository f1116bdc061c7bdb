// SPDX-License-Identifier: Apache-2.0
// reply: a Redis reply of any shape.
//
//     gyre::redis::reply found = co_await cache.call("COMMAND", "INFO", "GET");
//     for (const gyre::redis::reply& each : found.values) use(each.values.at(0).text);
#pragma once

#include <gyre/engines/redis/reply_node.hpp>
#include <gyre/engines/redis/reply_traits.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gyre::redis {

/// A value, with those that belong to it. Errors within it are values, too.
///
/// Complexity: allocates for texts and for values that belong to it.
struct reply {
  reply_kind kind = reply_kind::null;
  std::string text;
  std::int64_t integer = 0;
  std::vector<reply> values;  ///< the elements; in a map each key is followed by its value

  friend bool operator==(const reply&, const reply&) = default;
};

template <>
struct reply_traits<reply> {
  static reply read(reply_cursor& values);
};

}  // namespace gyre::redis
