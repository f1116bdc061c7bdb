// SPDX-License-Identifier: Apache-2.0
// reply_node: a value of a Redis reply, in the form of the protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gyre::redis {

/// The kinds of values, of both versions of the protocol (RESP2, RESP3).
enum class reply_kind : std::uint8_t {
  null,
  boolean,     ///< `integer` is 0 or 1
  integer,     ///< `integer`
  real,        ///< `text`, as the server wrote it: "3.25", "inf", "nan"
  big_number,  ///< `text`, decimal
  status,      ///< `text` of one line, such as OK
  text,        ///< `text`, any bytes
  error,       ///< `text`, such as "WRONGTYPE Operation against …"
  array,       ///< `count` values follow
  set,         ///< as an array: `count` values follow
  map,         ///< `count` pairs of a key and a value follow
  push,        ///< a message, which is no reply; `count` values follow
};

/// A value of a reply; the values of an array, set, map or push follow it.
struct reply_node {
  reply_kind kind = reply_kind::null;
  std::string_view text;
  std::int64_t integer = 0;
  std::size_t count = 0;

  /// The number of values that follow and belong to it.
  [[nodiscard]] constexpr std::size_t children() const noexcept {
    return kind == reply_kind::map ? 2 * count : count;
  }
};

}  // namespace gyre::redis
