// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/detail/select_wait.hpp>

namespace gyre::detail {

bool select_wait::decide(index chosen) noexcept {
  // relaxed: the exchanges below order.
  index seen = decided_.load(std::memory_order_relaxed);
  while (seen == preparing || seen == open) {
    // acquire: pairs with the release in publish().
    if (decided_.compare_exchange_weak(seen, chosen, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
      return seen == open;
    }
  }
  return false;
}

void select_queue::claim_all(intrusive_queue<operation>& claimed, bool closed) noexcept {
  while (select_node* const node = claim_first()) {
    node->closed = closed;
    claimed.push_back(*node->wait);
  }
}

void wake_all(intrusive_queue<operation>& claimed) noexcept {
  while (operation* const next = claimed.pop_front()) static_cast<select_wait*>(next)->wake();
}

}  // namespace gyre::detail
