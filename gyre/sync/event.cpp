// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/event.hpp>

namespace gyre {

template class detail::waiting_line<manual_reset_event>;
template class detail::waiting_line<auto_reset_event>;

void manual_reset_event::set() noexcept {
  change([](word& now) { now |= flag; });
}
void manual_reset_event::reset() noexcept {
  change([](word& now) { now &= ~flag; });
}

void auto_reset_event::set() noexcept {
  change([](word& now) { now |= flag; });
}
void auto_reset_event::reset() noexcept {
  change([](word& now) { now &= ~flag; });
}

}  // namespace gyre
