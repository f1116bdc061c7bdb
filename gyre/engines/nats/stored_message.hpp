// SPDX-License-Identifier: Apache-2.0
// stored_message: a message of a stream, read without a consumer.
#pragma once

#include <gyre/engines/nats/headers.hpp>
#include <gyre/engines/nats/server_time.hpp>

#include <cstdint>
#include <string>

namespace gyre::nats {

/// A message of a stream, read by its sequence or its subject.
struct stored_message {
  std::string subject = {};
  std::uint64_t sequence = 0;
  server_time stored = {};
  nats::headers headers = {};  ///< those of the publisher, even if gyre would refuse to send them
  std::string text = {};       ///< the payload
};

}  // namespace gyre::nats
