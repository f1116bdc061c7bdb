// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/release_queue.hpp>

#include <gyre/exec/event_loop.hpp>

namespace gyre::detail {

release_queue::release_queue(event_loop& loop) noexcept
    : operation(&release_queue::run_in_turn), loop_(loop) {}

void release_queue::run_in_turn(operation& queue) {
  auto& self = static_cast<release_queue&>(queue);
  // Posts the others again when one throws.
  struct pending {
    event_loop& loop;
    intrusive_queue<release_node> releases;
    ~pending() {
      while (release_node* each = releases.pop_front()) loop.post_release(*each);
    }
  } due{self.loop_, self.releases_.pop_all()};
  while (release_node* first = due.releases.pop_front()) first->run(release_point::loop_turn);
}

bool release_queue::run_at_loop_end() noexcept {
  intrusive_queue<release_node> due = releases_.pop_all();
  if (due.empty()) return false;
  while (release_node* first = due.pop_front()) first->run(release_point::loop_end);
  return true;
}

}  // namespace gyre::detail
