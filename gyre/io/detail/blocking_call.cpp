// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/blocking_call.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <cassert>
#include <cstdint>
#include <utility>

namespace gyre::io::detail {

/// A call in the pool's queue, and the wake-up in the queue of the coroutine's executor, as either
/// queue may outlive the coroutine.
///
///               | begin() | a stop     | the pool's thread           | destruction
///     beginning | waiting | withdrawn  |                             |
///     waiting   |         | withdrawn* | running, makes the call     | dropped
///     running   |         |            | done*, after the call       | dropped, waits for `notified`
///     done      |         |            | notified, after the wake-up | dropped, waits for `notified`
///     notified  |         |            |                             | dropped
///     withdrawn |         |            |                             | dropped
///     dropped   |         |            | notified, if it was running |
///
/// * posts the wake-up.
class blocking_call::ticket final : public operation, public gyre::detail::slab_object {
 public:
  enum class state : std::uint8_t {
    beginning,
    waiting,
    running,
    done,
    notified,
    withdrawn,
    dropped
  };

  explicit ticket(blocking_call& call) noexcept : operation(&run), call_(&call) {}

  /// Returns false if the state was not `expected`.
  bool change(state expected, state successor) noexcept {
    return state_.compare_exchange_strong(expected, successor);
  }

  void post_wake_up(executor& executor) noexcept {
    owners_.fetch_add(1);
    executor.post(wake_up_);
  }
  /// Detaches the ticket from a waiting coroutine that is about to be destroyed: the ticket uses
  /// neither the coroutine nor its executor afterwards.
  void drop() noexcept {
    const state old_state = state_.exchange(state::dropped);
    assert(old_state != state::dropped && "destroyed twice");
    if (old_state == state::running || old_state == state::done) {
      gyre::detail::sleep_while(state_, state::dropped);
    }
    call_ = nullptr;
  }

  // Ends one ownership of the ticket, which the coroutine, the pool and the wake-up have.
  void release() noexcept {
    if (owners_.fetch_sub(1) == 1) delete this;
  }

 private:
  struct wake_up : operation {
    explicit wake_up(ticket& ticket_of_call) noexcept
        : operation(&resume_waiting), owner(ticket_of_call) {}
    ticket& owner;
  };

  static void run(operation& call) noexcept {
    auto& self = static_cast<ticket&>(call);
    if (self.change(state::waiting, state::running)) {
      self.call_->work_.run();
      self.call_->were_calls_made_ = true;
      executor& resumer = *self.call_->context_->where;
      if (self.change(state::running, state::done)) self.post_wake_up(resumer);
      // drop() may be waiting for `notified`.
      if (!self.change(state::done, state::notified)) {
        gyre::detail::store_and_wake(self.state_, state::notified);
      }
    }
    self.release();
  }
  static void resume_waiting(operation& resumption) noexcept {
    ticket& self = static_cast<wake_up&>(resumption).owner;
    blocking_call* const call = self.call_;
    self.release();
    if (call != nullptr) gyre::detail::resume(call->coroutine_);
  }

  blocking_call* call_;
  wake_up wake_up_{*this};
  gyre::detail::atomic<state> state_{state::beginning};
  gyre::detail::atomic<std::uint8_t> owners_{2};
};

void blocking_call::abandon() noexcept {
  stop_callback_.reset();
  ticket_->drop();
  ticket_->release();
}

bool blocking_call::begin(std::coroutine_handle<> coroutine, const task_context& context) {
  context_ = &context;
  const bool may_stop = is_stoppable_ && context.stop.stop_possible();
  if (may_stop && context.stop.stop_requested()) return false;
  executor& pool = pool_ != nullptr ? *pool_ : default_pool();
  coroutine_ = coroutine;
  ticket& new_ticket = *(ticket_ = new ticket(*this));
  if (may_stop) stop_callback_.emplace(context.stop, on_stop{this});
  if (!new_ticket.change(ticket::state::beginning, ticket::state::waiting)) {
    new_ticket.release();  // ends the pool's ownership, as it did not get the ticket
    return false;
  }
  // From now on a stop resumes the coroutine, which may destroy this object.
  pool.post(new_ticket);
  return true;
}

bool blocking_call::end() noexcept {
  if (ticket_ != nullptr) {
    stop_callback_.reset();
    std::exchange(ticket_, nullptr)->release();
  }
  return were_calls_made_;
}

// Withdraws a call that has not begun, and resumes the coroutine. Called on any thread.
void blocking_call::withdraw() noexcept {
  using enum ticket::state;
  if (ticket_->change(beginning, withdrawn)) return;
  if (ticket_->change(waiting, withdrawn)) ticket_->post_wake_up(*context_->where);
}

}  // namespace gyre::io::detail
