// SPDX-License-Identifier: Apache-2.0
// publish_options, request_options: the optional parts of a NATS message, and of a request.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/nats/headers.hpp>

#include <optional>
#include <string_view>

namespace gyre::nats {

/// Optional parts of a message. Lifetime: views, which must outlive the call.
struct publish_options {
  /// The subject to which receivers send replies; empty: none.
  std::string_view reply = {};
  /// The headers of the message.
  header_view headers = {};
};

/// Optional parts of a request. Lifetime: views, which must outlive the call.
struct request_options {
  /// The time limit for the reply, the wait for a connection included; none:
  /// client_options::request_timeout.
  std::optional<duration> timeout = std::nullopt;
  /// The headers of the request.
  header_view headers = {};
};

}  // namespace gyre::nats
