// SPDX-License-Identifier: Apache-2.0
// waiter: a coroutine in a primitive's list, and the protocol by which the coroutine leaves the
// list.
//
// A waiter lives in the awaiter, so waiting allocates nothing. A waiter joins the primitive's list,
// and leaves the list once: completed by another coroutine or thread, cancelled by its stop token,
// or removed by the destruction of its coroutine. A wait_core decides which, with the primitive's
// lock held. After unlocking, the winner posts the waiter to its executor, and from then on the
// waiter may be gone.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/detail/wait_core.hpp>
#include <gyre/task/executor.hpp>

#include <atomic>
#include <cassert>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace gyre::detail {

/// The word of a waiter: its context's address and, in the low bits, whether it has a stop callback
/// and the parties of its wait_core. While the coroutine is suspended, the word belongs to the
/// primitive's lock, so that no member needs to be atomic.
class waiter_word {
 public:
  using parties = std::uintptr_t;

  constexpr explicit waiter_word(parties initial_parties) noexcept : bits_(initial_parties) {}

  // The wait_core calls the functions below, whose memory orders are ignored: the lock orders.

  [[nodiscard]] parties load(std::memory_order) const noexcept { return bits_ & party_bits; }
  void store(parties new_parties, std::memory_order) noexcept {
    bits_ = (bits_ & ~party_bits) | new_parties;
  }
  parties fetch_sub(parties ended_parties, std::memory_order order) noexcept {
    const parties old_parties = load(order);
    bits_ -= ended_parties;
    return old_parties;
  }
  parties fetch_and(parties remaining_parties, std::memory_order order) noexcept {
    const parties old_parties = load(order);
    // A claim that comes too late does not write, because the winner reads the context without the
    // lock.
    if ((old_parties & ~remaining_parties) != 0) bits_ &= remaining_parties | ~party_bits;
    return old_parties;
  }

  // The waiter calls the functions below.

  void set_context(const task_context& context, bool has_callback) noexcept {
    bits_ = (bits_ & party_bits) | reinterpret_cast<std::uintptr_t>(&context) |
            (has_callback ? callback_bit : 0);
  }
  void clear_context() noexcept { bits_ &= party_bits; }
  [[nodiscard]] const task_context* context() const noexcept {
    return reinterpret_cast<const task_context*>(bits_ & ~(party_bits | callback_bit));
  }
  [[nodiscard]] bool has_callback() const noexcept { return (bits_ & callback_bit) != 0; }

 private:
  static constexpr std::uintptr_t party_bits = 3;
  static constexpr std::uintptr_t callback_bit = 4;
  static_assert(alignof(task_context) > (party_bits | callback_bit));

  std::uintptr_t bits_;
};

/// The links of a waiter that is in the list of its primitive.
struct listed_waiter : intrusive_list_node {};

/// The operation of a waiter that is in the queue of its executor.
class woken_waiter : public operation {
 public:
  explicit woken_waiter(function run) noexcept : operation(run) {}
  ~woken_waiter() = default;
};

/// A waiting coroutine, from which primitives derive waiters with data of their own. A copy is a
/// new waiter in no list, so that an awaiter may be moved until it is awaited.
///
/// The parties of a waiter's wait_core are the coroutine that starts the wait, until the waiter is
/// listed, and the right to end the wait:
///
/// | starter | right | the waiter is | join() | complete() | withdraw()       |
/// |---------|-------|---------------|--------|------------|------------------|
/// | yes     | yes   | in no list    | listed | completed  | cancelled, false |
/// | -       | yes   | listed        | -      | completed  | cancelled, true  |
/// | -       | -     | completed     | -      | -          | false            |
/// | yes     | -     | cancelled     | -      | completed  | false            |
///
/// A waiter takes four words: the links of its list become the operation that resumes the
/// coroutine, and the parties lie in the low bits of a pointer.
class waiter {
 public:
  waiter() noexcept : listed_() {}
  waiter(const waiter&) noexcept : waiter() {}
  waiter& operator=(const waiter&) = delete;

  // The functions below, up to withdraw(), are called with the primitive's lock held.

  [[nodiscard]] bool is_cancelled() const noexcept {
    return core_.has(starter) && !core_.has(right);
  }

  /// Appends the waiter to `list`.
  template <class List>
  void join(List& list) noexcept {
    list.push_back(*this);
    static_cast<void>(core_.leave(starter));  // the party `right` remains
  }

  /// Completes the wait, and takes the waiter out of its list, if any. The wait can then no longer
  /// be cancelled.
  void complete() noexcept {
    if (!core_.has(starter)) leave_list();
    core_.begin(no_parties);
  }

  /// Cancels the wait, and takes the waiter out of its list. Returns true if the caller must resume
  /// the coroutine; false if the wait was completed or cancelled before, or if the waiter is in no
  /// list yet and must not join one.
  bool withdraw() noexcept {
    if (!core_.claim(right) || core_.has(starter)) return false;
    leave_list();
    core_.begin(starter);
    return true;
  }

  /// Resumes the coroutine through its executor. Called without the lock, by the caller that took
  /// the waiter out of its list. The waiter may be gone afterwards.
  void wake() noexcept { where().post(woken_); }

 protected:
  ~waiter() { assert((core_.has(starter) || !core_.has(right)) && "destroyed while in a list"); }

  /// Prepares the waiter for a wait. Called before the waiter joins a list.
  void begin_wait(std::coroutine_handle<> coroutine, const task_context& context,
                  bool has_stop_callback) noexcept {
    waiting_ = coroutine;
    core_.begin(starter | right);
    core_.word().set_context(context, has_stop_callback);
  }
  /// Returns the context of the coroutine; null unless the coroutine is suspended, or about to be.
  [[nodiscard]] const task_context* context() const noexcept { return core_.word().context(); }
  [[nodiscard]] bool has_callback() const noexcept { return core_.word().has_callback(); }
  /// Clears the context. Called after the wait; is_cancelled() stays valid.
  void end_wait() noexcept { core_.word().clear_context(); }

 private:
  template <class Waiter>
  friend class waiter_list;
  friend class woken_waiters;

  using core = basic_wait_core<waiter_word::parties, waiter_word>;
  static constexpr core::parties no_parties = 0;
  static constexpr core::parties starter = 1;
  static constexpr core::parties right = 2;

  [[nodiscard]] executor& where() const noexcept { return *context()->where; }
  void leave_list() noexcept {
    listed_.unlink();
    std::destroy_at(&listed_);
    ::new (static_cast<void*>(&woken_)) woken_waiter(&resume_coroutine);
  }

  // Returns the waiter whose union contains `member`.
  template <class Member>
  static waiter& owner_of(Member& member) noexcept {
    return reinterpret_cast<waiter&>(member);
  }
  static void resume_coroutine(operation& self) {
    resume(owner_of(static_cast<woken_waiter&>(self)).waiting_);
  }

  union {
    listed_waiter listed_;
    woken_waiter woken_;  // leave_list() constructs it
  };
  std::coroutine_handle<> waiting_;
  core core_{starter | right};
};

/// The waiters of a primitive, in the order in which they came. Guarded by the primitive's lock.
template <class Waiter>
class waiter_list {
 public:
  [[nodiscard]] bool empty() const noexcept { return listed_.empty(); }
  [[nodiscard]] Waiter& front() noexcept { return to_waiter(listed_.front()); }
  void push_back(waiter& node) noexcept { listed_.push_back(node.listed_); }
  /// Removes `node`, which may then join a list again.
  static void remove(Waiter& node) noexcept { static_cast<waiter&>(node).listed_.unlink(); }
  [[nodiscard]] Waiter& back() noexcept { return to_waiter(listed_.back()); }
  /// Removes and returns the first waiter; returns null if there is none.
  Waiter* pop_front() noexcept {
    listed_waiter* const first = listed_.pop_front();
    return first == nullptr ? nullptr : &to_waiter(*first);
  }

 private:
  static Waiter& to_waiter(listed_waiter& node) noexcept {
    return static_cast<Waiter&>(waiter::owner_of(node));
  }

  intrusive_list<listed_waiter> listed_;
};

/// Collects waiters that are completed under a lock. The destructor wakes them, so declare the
/// object before the lock guard.
class woken_waiters {
 public:
  woken_waiters() noexcept = default;
  woken_waiters& operator=(woken_waiters&&) = delete;
  ~woken_waiters() {
    if (count_ > 1 && have_one_executor_) {
      first_executor_->post_all(ready_, count_);
    } else {
      while (operation* const each = ready_.pop_front()) {
        waiter::owner_of(static_cast<woken_waiter&>(*each)).wake();
      }
    }
  }

  /// Completes `node`, which is in a list. Called with the primitive's lock held.
  void complete(waiter& node) noexcept {
    complete_and_count(node);
    ready_.push_back(node.woken_);
  }
  /// Completes all waiters of `list`, in their order. Called with the primitive's lock held. Works
  /// from both ends of the list towards its middle, so that the processor can load the links of two
  /// waiters at once: they are seldom in a cache if there are many.
  template <class Waiter>
  void complete_all(waiter_list<Waiter>& list) noexcept {
    intrusive_queue<operation> later_half;
    while (!list.empty()) {
      complete(list.front());
      if (list.empty()) break;
      waiter& last = list.back();
      complete_and_count(last);
      later_half.push_front(last.woken_);
    }
    ready_.splice_back(later_half);
  }

 private:
  // Completes `node`, which the caller must add to ready_.
  void complete_and_count(waiter& node) noexcept {
    node.complete();
    executor& target = node.where();
    if (count_++ == 0) first_executor_ = &target;
    if (first_executor_ != &target) have_one_executor_ = false;
  }

  intrusive_queue<operation> ready_;
  std::size_t count_ = 0;
  executor* first_executor_ = nullptr;  // the executor of the first waiter
  bool have_one_executor_ = true;       // whether all waiters have the executor first_executor_
};

}  // namespace gyre::detail
