// SPDX-License-Identifier: Apache-2.0
// make_request_head, add_request_head: the head of a request of a client, in HTTP/1.1 and HTTP/2.
#pragma once

#include <gyre/http/client_request.hpp>
#include <gyre/http/detail/header_block.hpp>
#include <gyre/http/detail/message_writer.hpp>
#include <gyre/http/fields.hpp>

#include <string>
#include <string_view>

namespace gyre::http::detail {

/// Parts of a request's head that the client adds for the route to the server.
struct request_route {
  bool absolute_form = false;            ///< whether the target is a whole URL, for a proxy
  std::string proxy_authorization = {};  ///< the value of the field; empty: no field
  std::string cookies = {};        ///< the value of Cookie from the client's jar; empty: no field
  bool accept_compressed = false;  ///< whether to send Accept-Encoding
  /// In HTTP/2, the protocol of an extended CONNECT (RFC 8441); empty: the request's own method.
  std::string_view connect_protocol = {};
};

/// Returns the head with its empty line. `body`: the framing, after begin_request().
std::string make_request_head(const client_request& request, const request_route& route,
                              const message_writer& body);
/// Adds the fields of the head in HTTP/2, with names in lower case and the pseudo-header fields
/// first. `body`: the framing, after begin_request().
void add_request_head(const client_request& request, const request_route& route,
                      const message_writer& body, header_block& head);
/// Whether the fields of a request contain `Connection: close`.
bool asks_for_close(const http::fields& request) noexcept;
/// Returns the value of Authorization or Proxy-Authorization for the user of a URL ("Basic …").
std::string basic_credentials(std::string_view user_info);

}  // namespace gyre::http::detail
