// SPDX-License-Identifier: Apache-2.0
// access_log: a record of each request and its response, and its line in the combined log format.
//
//     server.on_access([&](const gyre::http::access_record& record) {
//       log += gyre::http::to_combined_log(record) + '\n';
//     });
#pragma once

#include <gyre/http/status.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace gyre::http {

class request;

/// The record of a request and its response, which a server passes to the function of
/// server::on_access().
///
/// Lifetime: valid until that function returns.
struct access_record {
  const http::request& request;
  http::status status;
  /// Bytes of the response's body, or of an upgraded connection, that the handler has passed on. A
  /// body of known length counts as a whole.
  std::uint64_t body_bytes;
  /// From the receipt of the request's head to the end of the response, when the last byte was
  /// passed to the connection.
  std::chrono::nanoseconds duration;
  /// The pattern of the route, such as "/users/{id}"; "(no route)" if there is none. Valid as long
  /// as the server.
  std::string_view route;
  /// False if a streamed response or an upgraded connection was cut off: the client has left, or
  /// the function that writes has failed.
  bool is_complete;
};

/// Returns the record as a line in the combined log format, with the current time and the address
/// of request::client_address(). If the request has an id, it follows the line's other fields, in
/// quotes.
[[nodiscard]] std::string to_combined_log(const access_record& record);

}  // namespace gyre::http
