// SPDX-License-Identifier: Apache-2.0
// notification: a NOTIFY message that a subscription has received.
#pragma once

#include <cstdint>
#include <string>

namespace gyre::postgres {

/// A NOTIFY message.
struct notification {
  std::string channel;
  std::string payload;
  /// The process of the server for the connection that sent it.
  std::int32_t process_id = 0;
  /// Whether notifications before this one may be missing: the connection was replaced, or the
  /// queue was full. After a replaced connection one without a payload comes at once, so that a
  /// gap does not stay unnoticed until the next NOTIFY.
  bool follows_gap = false;
};

}  // namespace gyre::postgres
