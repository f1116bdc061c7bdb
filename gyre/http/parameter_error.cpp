// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/parameter_error.hpp>

namespace gyre::http {

parameter_error::parameter_error(std::string_view name, std::string_view expected)
    : http_error(status::bad_request, "The parameter '" + std::string(name) + "' must be " +
                                          std::string(expected) + '.'),
      name_(name),
      expected_(expected) {}

}  // namespace gyre::http
