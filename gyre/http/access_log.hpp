// SPDX-License-Identifier: Apache-2.0
// access_log: the record of an answered request, and a line of it in the combined log format.
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

/// An answered request, for an access log, as server::on_access() gives it.
///
/// Lifetime: valid during the call of that function.
struct access_record {
  const http::request& request;
  http::status status;
  std::uint64_t body_bytes;           ///< of the response; of a stream 0
  std::chrono::nanoseconds duration;  ///< from the end of the head to the response
};

/// A line in the combined log format, with the present time.
[[nodiscard]] std::string to_combined_log(const access_record& record);

}  // namespace gyre::http
