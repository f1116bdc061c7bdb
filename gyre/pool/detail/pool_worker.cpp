// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/pool_worker.hpp>

namespace gyre::detail {

constinit thread_local pool_worker* this_worker = nullptr;

// The part of push_to_own_deque() for a full deque, which must grow. push_to_own_deque() has
// counted the item in `submitted`.
bool pool_worker::push_to_own_deque_slowly(work_item item) noexcept {
  if (!deque.push(item)) {
    submitted.subtract(1);
    return false;
  }
  has_own_tasks = true;
  idle_peers->notify();
  return true;
}

}  // namespace gyre::detail
