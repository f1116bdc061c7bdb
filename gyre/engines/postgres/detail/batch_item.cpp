// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/batch_item.hpp>

#include <stdexcept>

namespace gyre::postgres::detail {

void throw_no_result() {
  throw std::logic_error(
      "gyre::postgres::batch_result: there is no result, as the batch was not executed or has "
      "failed");
}

}  // namespace gyre::postgres::detail
