// SPDX-License-Identifier: Apache-2.0
// request_origin: the client of a request, as trusted proxies name it.
#pragma once

#include <gyre/http/fields.hpp>
#include <gyre/http/forwarding.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/endpoint.hpp>

#include <optional>
#include <string_view>

namespace gyre::http::detail {

/// The client of a request. A text is empty if no trusted proxy has told it.
///
/// Lifetime: the texts refer to the request's fields, or are constants.
struct request_origin {
  std::optional<net::ip_address> address = {};  ///< nothing for a Unix peer
  std::string_view scheme = {};                 ///< "http" or "https"
  std::string_view host = {};
};

/// Whether requests of `peer` come from a trusted proxy.
[[nodiscard]] bool is_trusted(const forwarding_options& options,
                              const net::endpoint& peer) noexcept;

/// Returns the client of a request that `peer` has sent.
/// Complexity: linear in the size of the fields; allocates nothing.
[[nodiscard]] request_origin find_origin(const forwarding_options& options,
                                         const net::endpoint& peer, field_list fields) noexcept;

}  // namespace gyre::http::detail
