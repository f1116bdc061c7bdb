// SPDX-License-Identifier: Apache-2.0
// bucket: what a key_value and its calls share.
#pragma once

#include <gyre/engines/nats/detail/jetstream_core.hpp>

#include <memory>
#include <string>

namespace gyre::nats::detail {

struct bucket {
  std::shared_ptr<jetstream_core> core;
  std::string name;
  std::string stream;
  std::string prefix;  // the part of a subject before the key
  bool reads_from_leader = false;
};

}  // namespace gyre::nats::detail
