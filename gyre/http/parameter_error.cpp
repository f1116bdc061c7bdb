// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/parameter_error.hpp>

namespace gyre::http {

parameter_error::parameter_error(std::string_view name, std::string_view expectation)
    : http_error(status::bad_request, "The parameter '" + std::string(name) + "' must be " +
                                          std::string(expectation) + '.'),
      name_(name),
      expectation_(expectation) {}

}  // namespace gyre::http
