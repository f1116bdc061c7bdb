// SPDX-License-Identifier: Apache-2.0
// subscription_options: the settings of a subscription of PostgreSQL.
#pragma once

#include <cstddef>

namespace gyre::postgres {

/// Limits of the notifications that wait in a subscription. Beyond the limits the oldest one is
/// dropped.
struct subscription_options {
  std::size_t max_messages = 1024;  ///< notifications that may wait; at least 1
  std::size_t max_bytes = std::size_t{1}
                          << 20;  ///< bytes of payloads that may wait; a single one may have more
};

}  // namespace gyre::postgres
