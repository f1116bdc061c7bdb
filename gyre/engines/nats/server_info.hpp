// SPDX-License-Identifier: Apache-2.0
// server_info: what a NATS server says about itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gyre::nats {

/// A server as its INFO describes it.
struct server_info {
  std::string id = {};
  std::string name = {};
  std::string version = {};  ///< such as "2.10.7"
  std::string cluster = {};  ///< the name of its cluster; empty: none
  std::string host = {};     ///< as it is configured; may be a wildcard address
  std::uint16_t port = 0;
  std::uint64_t client_id = 0;        ///< the number that it has given the connection
  std::size_t max_payload = 1048576;  ///< bytes of headers and payload that it takes
  bool has_headers = false;
  bool has_jetstream = false;
  bool is_lame_duck = false;  ///< whether it closes its connections soon
};

}  // namespace gyre::nats
