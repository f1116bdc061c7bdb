// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/strand_core.hpp>

#include <new>
#include <utility>

namespace gyre::detail {

strand_core::strand_core(executor& target, std::size_t max_per_turn) noexcept
    : operation(&run), target_(target), max_per_turn_(static_cast<std::uint8_t>(max_per_turn)) {
  static_cast<void>(queue_.go_idle());
}

/// One turn of the core on a thread of the target. The destructor leaves the core idle, or posts it
/// again.
class strand_core::turn {
 public:
  explicit turn(strand_core& core) noexcept : core_(core) {
    // seq_cst, like the load of is_closed_ that follows: close() stores is_closed_ and then loads
    // active_run_, so that at least one of the two sees the other's store. The acquire pairs with
    // the release in ~turn() of the turn before.
    core_.active_run_.exchange(current_run(), std::memory_order_seq_cst);
  }
  turn& operator=(turn&&) = delete;
  ~turn() {
    const bool was_closed = is_closed();
    const bool has_more = !was_closed && !core_.taken_operations_.empty();
    // release: pairs with the acquire in close() and in the constructor of the next turn.
    core_.active_run_.store(nullptr, std::memory_order_release);
    if (has_more || (!was_closed && !core_.queue_.go_idle())) core_.schedule();
    core_.release();
  }

  /// Returns the next operation; null if there is none or the strand is closed.
  operation* next() noexcept {
    if (is_closed()) return nullptr;
    if (core_.taken_operations_.empty()) core_.taken_operations_ = core_.queue_.take();
    return core_.taken_operations_.pop_front();
  }

 private:
  bool is_closed() const noexcept { return core_.is_closed_.load(std::memory_order_seq_cst); }

  strand_core& core_;
};

void strand_core::run(operation& self) {
  auto& core = static_cast<strand_core&>(self);
  turn current_turn(core);
  for (unsigned operations_left = core.max_per_turn_; operations_left > 0; --operations_left) {
    operation* const next_operation = current_turn.next();
    if (next_operation == nullptr) return;
    next_operation->execute();
  }
}

// Posts the core to the target. The caller holds a share, which keeps the core alive.
void strand_core::schedule() noexcept {
  const auto discard = [](operation& self) noexcept { static_cast<strand_core&>(self).release(); };
  // relaxed: the caller holds a share.
  shares_.fetch_add(1, std::memory_order_relaxed);
  try {
    target_.post_discardable(*this, discard);
  } catch (const std::bad_alloc&) {
    // relaxed: the caller holds a share. The addition replaces the share that was discarded.
    shares_.fetch_add(1, std::memory_order_relaxed);
    target_.post(*this);
  }
}

void strand_core::release() noexcept {
  // acq_rel: the release of each holder pairs with the acquire of the last one, which deletes the
  // core.
  if (shares_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

intrusive_queue<operation> strand_core::close() noexcept {
  is_closed_.store(true, std::memory_order_seq_cst);  // seq_cst: see turn()
  for (;;) {
    // seq_cst: see the constructor of turn. The acquire pairs with the release in ~turn().
    const void* const active_run = active_run_.load(std::memory_order_seq_cst);
    if (active_run == nullptr || is_run_of_this_thread(active_run)) break;
    thread_yield();
  }
  intrusive_queue<operation> operations = std::move(taken_operations_);
  intrusive_queue<operation> new_operations = queue_.take();
  operations.splice_back(new_operations);
  return operations;
}

}  // namespace gyre::detail
