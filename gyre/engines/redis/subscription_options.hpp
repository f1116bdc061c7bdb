// SPDX-License-Identifier: Apache-2.0
// subscription_options: the settings of a subscription of Redis.
#pragma once

#include <cstddef>

namespace gyre::redis {

/// Limits of the messages that wait in a subscription. Beyond the limits the oldest one is dropped.
struct subscription_options {
  std::size_t max_messages = 1024;  ///< messages that may wait; at least 1
  std::size_t max_bytes = std::size_t{1}
                          << 20;  ///< of channels and texts; one message may have more
  /// Whether the name is a pattern, such as "news.*" (PSUBSCRIBE).
  bool is_pattern = false;
};

}  // namespace gyre::redis
