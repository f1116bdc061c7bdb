// SPDX-License-Identifier: Apache-2.0
// message: a message that a subscription of Redis has received.
#pragma once

#include <string>

namespace gyre::redis {

/// A message of a channel.
struct message {
  std::string channel;
  std::string text;
  /// Whether messages before this one may be missing: the connection was replaced, or the queue was
  /// full.
  bool follows_gap = false;
};

}  // namespace gyre::redis
