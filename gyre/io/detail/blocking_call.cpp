// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/blocking_call.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/slab.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gyre::io::detail {

/// A call in the pool's queue. Whoever takes it out of `waiting` decides whether it is made. What is in
/// the queue of the coroutine's executor when the call is over is part of it too, as either queue may
/// outlive the coroutine.
class blocking_call_base::ticket final : public operation {
 public:
  enum class state : std::uint8_t { beginning, waiting, running, done, told, withdrawn, dropped };

  explicit ticket(blocking_call_base& call) noexcept : operation(&run), call_(&call) {}

  static void* operator new(std::size_t bytes) { return slab_allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept {
    slab_deallocate(memory, bytes);
  }

  /// One step on the way; false if it was not at `from`.
  bool change(state from, state to) noexcept { return state_.compare_exchange_strong(from, to); }

  /// Lets the coroutine go on.
  void tell(executor& where) noexcept {
    owners_.fetch_add(1);
    where.post(wake_up_);
  }
  /// For a coroutine that is destroyed while it waits: neither it nor its executor is used any more.
  void drop() noexcept {
    const state found = state_.exchange(state::dropped);
    assert(found != state::dropped && "destroyed twice");
    if (found == state::running || found == state::done) {
      gyre::detail::sleep_while(state_, state::dropped);
    }
    call_ = nullptr;
  }

  // The coroutine, the pool, and the wake-up.
  void release() noexcept {
    if (owners_.fetch_sub(1) == 1) delete this;
  }

 private:
  struct wake_up : operation {
    explicit wake_up(ticket& part_of) noexcept : operation(&arrive), of(part_of) {}
    ticket& of;
  };

  static void run(operation& posted) noexcept {
    auto& self = static_cast<ticket&>(posted);
    if (self.change(state::waiting, state::running)) {
      self.call_->perform();
      executor& where = *self.call_->context_->where;
      if (self.change(state::running, state::done)) self.tell(where);
      // Who drops it meanwhile waits.
      if (!self.change(state::done, state::told)) {
        gyre::detail::store_and_wake(self.state_, state::told);
      }
    }
    self.release();
  }
  static void arrive(operation& posted) noexcept {
    ticket& self = static_cast<wake_up&>(posted).of;
    blocking_call_base* const call = self.call_;
    self.release();
    if (call != nullptr) gyre::detail::resume(call->waiting_);
  }

  blocking_call_base* call_;
  wake_up wake_up_{*this};
  gyre::detail::atomic<state> state_{state::beginning};
  gyre::detail::atomic<std::uint8_t> owners_{2};
};

void blocking_call_base::withdraw_ticket() noexcept {
  stop_callback_.reset();
  ticket_->drop();
  ticket_->release();
}

bool blocking_call_base::begin(std::coroutine_handle<> awaiting, const task_context& context) {
  context_ = &context;
  const bool gives_up = stopping_ == on_stop::give_up && context.stop.stop_possible();
  if (gives_up && context.stop.stop_requested()) return false;
  executor& pool = pool_ != nullptr ? *pool_ : default_pool();
  waiting_ = awaiting;
  ticket& posted = *(ticket_ = new ticket(*this));
  if (gives_up) stop_callback_.emplace(context.stop, stop{this});
  if (!posted.change(ticket::state::beginning, ticket::state::waiting)) {
    posted.release();  // for the pool
    return false;
  }
  // From here on a stop resumes the coroutine, and this may be gone.
  pool.post(posted);
  return true;
}

void blocking_call_base::end() noexcept {
  if (ticket_ == nullptr) return;
  stop_callback_.reset();
  std::exchange(ticket_, nullptr)->release();
}

// Any thread.
void blocking_call_base::give_up() noexcept {
  using enum ticket::state;
  if (ticket_->change(beginning, withdrawn)) return;
  if (ticket_->change(waiting, withdrawn)) ticket_->tell(*context_->where);
}

}  // namespace gyre::io::detail
