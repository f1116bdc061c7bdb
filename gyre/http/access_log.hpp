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

namespace gyre::http {

class request;

/// The record of a request and its response, which a server passes to the function of
/// server::on_access().
///
/// Lifetime: valid until that function returns.
struct access_record {
  const http::request& request;
  http::status status;
  std::uint64_t body_bytes;           ///< size of the response's body; 0 for a stream
  std::chrono::nanoseconds duration;  ///< from the receipt of the request's head to the response
};

/// Returns the record as a line in the combined log format, with the current time.
[[nodiscard]] std::string to_combined_log(const access_record& record);

}  // namespace gyre::http
