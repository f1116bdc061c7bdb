// SPDX-License-Identifier: Apache-2.0
// parameter_error: the response 400 to a request with a wrong parameter, which it names.
//
//     const int page = request.query<int>("page", 1);
//     if (page < 1) throw gyre::http::parameter_error("page", "a positive integer");
#pragma once

#include <gyre/http/response.hpp>

#include <string>
#include <string_view>

namespace gyre::http {

/// A parameter of a request's path or query is missing, or is not of the type that the handler
/// needs. The client gets 400 and the text "The parameter 'page' must be a positive integer.",
/// which repeats nothing that the client has sent.
///
/// Thread-safety: as a value.
class parameter_error : public http_error {
 public:
  /// `expectation` completes "The parameter … must be", such as "an integer".
  parameter_error(std::string_view name, std::string_view expectation);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& expectation() const noexcept { return expectation_; }

 private:
  std::string name_;
  std::string expectation_;
};

}  // namespace gyre::http
