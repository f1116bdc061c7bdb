// SPDX-License-Identifier: Apache-2.0
// key_value_entry: a value of a key, or the deletion of a key.
#pragma once

#include <gyre/engines/nats/server_time.hpp>

#include <cstdint>
#include <string>

namespace gyre::nats {

/// The kind of a change of a key.
enum class key_value_operation : unsigned char {
  put,
  remove,  ///< the earlier values remain in the history
  purge,   ///< there is no earlier value; or the value has expired
};

/// A change of a key: the value that it got, or its deletion.
struct key_value_entry {
  std::string key = {};
  std::string value = {};  ///< empty for a deletion
  /// The number of this change, which grows over all keys of the bucket.
  std::uint64_t revision = 0;
  server_time created = {};
  key_value_operation operation = key_value_operation::put;
};

}  // namespace gyre::nats
