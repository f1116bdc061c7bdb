// SPDX-License-Identifier: Apache-2.0
// request_head: writes the head of a request of a client.
#pragma once

#include <gyre/http/client_request.hpp>
#include <gyre/http/detail/message_writer.hpp>
#include <gyre/http/fields.hpp>

#include <string>
#include <string_view>

namespace gyre::http::detail {

/// Parts of a head that depend on the way to the server.
struct request_route {
  bool absolute_form = false;            ///< for a proxy
  std::string proxy_authorization = {};  ///< empty: none
  std::string cookies = {};              ///< of the client's jar; empty: none
  bool accept_compressed = false;
};

/// The head with its empty line. `body`: the framing, which begin_request() has decided on.
std::string make_request_head(const client_request& request, const request_route& route,
                              const message_writer& body);
/// Whether the program wants the connection to end after the response.
bool asks_for_close(const http::fields& request) noexcept;
/// The value of Authorization or Proxy-Authorization for the user of a URL ("Basic …").
std::string basic_credentials(std::string_view user_info);

}  // namespace gyre::http::detail
