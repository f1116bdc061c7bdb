// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/mutex.hpp>

namespace gyre {

template class detail::waiting_line<mutex>;

void mutex::hand_over() noexcept {
  change([](word& now) {
    assert((now & held) != 0 && "unlocked a gyre::mutex that is not locked");
    now &= ~held;
  });
}

}  // namespace gyre
