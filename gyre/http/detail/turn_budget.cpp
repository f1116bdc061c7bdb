// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/turn_budget.hpp>

#include <gyre/http/detail/exchange.hpp>
#include <gyre/http/detail/server_core.hpp>

namespace gyre::http::detail {

turn_budget::turn_budget(server_core& core, event_loop& loop) noexcept : core_(core), loop_(loop) {}

// The destructor is defined here, because the lists need complete elements.
turn_budget::~turn_budget() = default;

void turn_budget::spend_work_of_new_clients(std::size_t work) noexcept {
  if (await_next_turn()) work_ += work;
}

void turn_budget::await_share(sharing_client& client) noexcept {
  if (client.is_linked()) return;
  clients_.push_back(client);
  await_next_turn();
}

void turn_budget::stop(exchange& target) noexcept {
  if (target.is_linked()) return;
  if (stops_ == max_stops && await_next_turn()) return waiting_exchanges_.push_back(target);
  if (await_next_turn()) ++stops_;
  target.stop_handler();
}

// Returns false if there is no memory for the callable; the budget then has no limit.
bool turn_budget::await_next_turn() noexcept {
  if (awaits_turn_) return true;
  try {
    // A posted task would run too early: a batch of tasks also runs the tasks that they post.
    loop_.post_after(duration::zero(), [this, owner = core_.weak_from_this()] {
      if (const auto owner_share = owner.lock()) begin_turn();
    });
    awaits_turn_ = true;
  } catch (...) {
    stop_waiting();
  }
  return awaits_turn_;
}

void turn_budget::stop_waiting() noexcept {
  work_ = stops_ = 0;
  while (exchange* const front = waiting_exchanges_.pop_front()) front->stop_handler();
  while (sharing_client* const front = clients_.pop_front()) front->begin_share();
}

void turn_budget::begin_turn() noexcept {
  awaits_turn_ = false;
  work_ = stops_ = 0;
  for (; stops_ < max_stops && !waiting_exchanges_.empty(); ++stops_)
    waiting_exchanges_.pop_front()->stop_handler();
  for (; work_ < max_work && !clients_.empty(); work_ += share) {
    clients_.pop_front()->begin_share();
  }
  if (stops_ != 0 || work_ != 0) await_next_turn();
}

}  // namespace gyre::http::detail
