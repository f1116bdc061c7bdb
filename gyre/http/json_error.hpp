// SPDX-License-Identifier: Apache-2.0
// json_error: the response to a request whose body is not the JSON that the handler needs.
//
//     throw gyre::http::json_error::malformed("line 3: a comma is missing");  // 400
//     throw gyre::http::json_error::mismatch("'title' is not a text");        // 422
#pragma once

#include <gyre/http/response.hpp>

#include <string_view>

namespace gyre::http {

/// An exception of json_traits<T>::read(). The client gets the detail, which may come from a
/// library and contain parts of the body: its first 200 bytes, with '?' in place of control
/// characters.
///
/// Thread-safety: as a value.
class json_error : public http_error {
 public:
  /// The body is not JSON: 400.
  [[nodiscard]] static json_error malformed(std::string_view detail = {});
  /// The body is JSON, but not a T: 422.
  [[nodiscard]] static json_error mismatch(std::string_view detail = {});

 private:
  using http_error::http_error;
};

}  // namespace gyre::http
