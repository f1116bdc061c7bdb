// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/latch.hpp>

namespace gyre {

template class detail::waiting_line<latch>;

void latch::count_down(std::uint64_t arrived) noexcept {
  change([arrived](word& now) {
    assert(now / one >= arrived && "more arrived at a gyre::latch than were expected");
    now -= arrived * one;
  });
}

}  // namespace gyre
