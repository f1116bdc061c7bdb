// SPDX-License-Identifier: Apache-2.0
// The login at a NATS server: its INFO, and the client's CONNECT.
#pragma once

#include <gyre/engines/nats/client_options.hpp>
#include <gyre/engines/nats/detail/server_address.hpp>
#include <gyre/engines/nats/server_info.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::nats::detail {

/// The parts of an INFO that clients need.
struct info_message {
  server_info server = {};
  std::string nonce = {};  ///< a text that the client signs; may be empty
  bool tls_required = false;
  bool tls_available = false;
  std::vector<std::string> connect_urls = {};  ///< of the cluster, "HOST:PORT"
};

/// Reads the JSON of INFO; members of other types than expected count as missing. The result is
/// empty if the text is not a JSON object. Throws std::bad_alloc.
std::optional<info_message> parse_info(std::string_view text);

/// Writes the line CONNECT for a server that has sent `info`. Throws std::system_error
/// (errc::bad_credentials, nonce_missing; the errors of reading a file).
std::string connect_line(const client_options& options, const server_address& server,
                         const info_message& info);

}  // namespace gyre::nats::detail
