// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/body_length_error.hpp>

#include <string>

namespace gyre::http::detail {

std::length_error too_long_body() {
  return std::length_error("http::body_writer::write: more than the length of the response");
}

std::length_error too_short_body(std::uint64_t missing_bytes) {
  return std::length_error("http::response::stream: the body ended " +
                           std::to_string(missing_bytes) + " bytes before its length");
}

}  // namespace gyre::http::detail
