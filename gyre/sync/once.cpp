// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/once.hpp>

namespace gyre {

template class detail::waiting_line<once_flag>;

void once_flag::end_attempt(bool success) noexcept {
  change([success](word& now) {
    now &= ~attempted;
    if (success) now |= succeeded;
  });
}

}  // namespace gyre
