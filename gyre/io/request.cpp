// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/request.hpp>

namespace gyre::io {

std::error_code result::error() const noexcept {
  const int number = error_number();
  if (number > own_errors) return static_cast<errc>(number - own_errors);
  return {number, std::system_category()};
}

}  // namespace gyre::io
