// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/numeric.hpp>

#include <gyre/engines/postgres/detail/numeric_codec.hpp>

#include <stdexcept>

namespace gyre::postgres {

numeric::numeric(std::string text) : text_(std::move(text)) {
  if (!detail::is_numeric(text_)) {
    throw std::invalid_argument("gyre::postgres::numeric: \"" + text_.substr(0, 64) +
                                "\" is no decimal number, such as -12.50");
  }
}

double numeric::to_double() const noexcept { return detail::to_double(text_); }

}  // namespace gyre::postgres
