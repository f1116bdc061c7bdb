// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/release_queue.hpp>

namespace gyre::detail {

void release_queue::run_in_turn(operation& op) {
  auto& self = static_cast<release_queue&>(op);
  // Posts the remaining releases again if one of them throws.
  struct pending_releases {
    release_queue& queue;
    intrusive_queue<release_node> releases;
    ~pending_releases() {
      bool was_empty = false;
      while (release_node* node = releases.pop_front()) was_empty |= queue.push(*node);
      if (was_empty) queue.loop_.post(queue);
    }
  } pending{self, self.releases_.pop_all()};
  while (release_node* first = pending.releases.pop_front()) first->run(release_point::loop_turn);
}

bool release_queue::run_at_loop_end() noexcept {
  intrusive_queue<release_node> nodes = releases_.pop_all();
  if (nodes.empty()) return false;
  while (release_node* first = nodes.pop_front()) first->run(release_point::loop_end);
  return true;
}

}  // namespace gyre::detail
