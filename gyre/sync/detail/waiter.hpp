// SPDX-License-Identifier: Apache-2.0
// waiter: a coroutine in a primitive's list, and the protocol by which it leaves.
//
// A waiter lives in the awaiter, so waiting allocates nothing. It joins the primitive's list, and
// leaves it once: completed by another coroutine or thread, cancelled by its stop token, or taken
// along by the destruction of its coroutine. The primitive's lock decides which; then, outside of
// the lock, the winner posts the waiter to its executor, and after that the waiter may be gone.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/executor.hpp>

#include <cassert>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace gyre::detail {

/// The stage of a wait.
enum class wait_stage : unsigned char {
  begun,   // in no list
  listed,  // in the list of a primitive
  completed,
  cancelled,
};

/// A waiter in the list of its primitive.
struct listed_waiter : intrusive_list_node {};

/// A waiter in the queue of its executor.
class woken_waiter : public operation {
 public:
  explicit woken_waiter(function run) noexcept : operation(run) {}
  ~woken_waiter() = default;
};

/// A waiting coroutine, from which primitives derive waiters with data of their own. Copies are new
/// waiters: an awaiter may be moved until it is awaited.
///
/// | stage     | join() | complete() | withdraw()       |
/// |-----------|--------|------------|------------------|
/// | begun     | listed | completed  | cancelled, false |
/// | listed    | -      | completed  | cancelled, true  |
/// | completed | -      | -          | false            |
/// | cancelled | -      | completed  | false            |
///
/// Four words: the links of its list become the operation that resumes the coroutine, and the stage
/// lies in the low bits of a pointer.
class waiter {
 public:
  waiter() noexcept : listed_() {}
  waiter(const waiter&) noexcept : waiter() {}
  waiter& operator=(const waiter&) = delete;

  // With the primitive's lock held:

  [[nodiscard]] bool is_cancelled() const noexcept { return stage() == wait_stage::cancelled; }

  /// Joins the end of `list`.
  template <class List>
  void join(List& list) noexcept {
    list.push_back(*this);
    set_stage(wait_stage::listed);
  }

  /// Takes it out of its list, if any; it can no longer be cancelled.
  void complete() noexcept {
    if (stage() == wait_stage::listed) leave_list();
    set_stage(wait_stage::completed);
  }

  /// Takes it out of its list. True: the caller resumes it. False if it was completed before, or is
  /// in no list yet; it does not join one then.
  bool withdraw() noexcept {
    const wait_stage before = stage();
    if (before == wait_stage::completed) return false;
    if (before == wait_stage::listed) leave_list();
    set_stage(wait_stage::cancelled);
    return before == wait_stage::listed;
  }

  // Without the lock, by the caller that took it out of its list. From then on it may be gone.

  /// Resumes the coroutine through its executor.
  void wake() noexcept { where().post(woken_); }

 protected:
  ~waiter() { assert(stage() != wait_stage::listed && "destroyed while in a list"); }

  /// Before it is enlisted.
  void begin_wait(std::coroutine_handle<> awaiting, const task_context& context,
                  bool with_callback) noexcept {
    waiting_ = awaiting;
    state_ = reinterpret_cast<std::uintptr_t>(&context) | (with_callback ? has_callback_bit : 0);
  }
  /// Null unless its coroutine is suspended, or about to be.
  [[nodiscard]] const task_context* context() const noexcept {
    return reinterpret_cast<const task_context*>(state_ & ~flags);
  }
  [[nodiscard]] bool has_callback() const noexcept { return (state_ & has_callback_bit) != 0; }
  /// The stage, which belongs to the primitive's lock while the coroutine is suspended.
  [[nodiscard]] wait_stage stage() const noexcept {
    return static_cast<wait_stage>(state_ & stage_bits);
  }
  /// After the wait: forgets all but the stage.
  void end_wait() noexcept { state_ &= stage_bits; }

 private:
  template <class Waiter>
  friend class waiter_list;
  friend class woken_waiters;

  static constexpr std::uintptr_t stage_bits = 3;
  static constexpr std::uintptr_t has_callback_bit = 4;
  static constexpr std::uintptr_t flags = stage_bits | has_callback_bit;
  static_assert(alignof(task_context) > flags);

  [[nodiscard]] executor& where() const noexcept { return *context()->where; }
  void set_stage(wait_stage next) noexcept {
    state_ = (state_ & ~stage_bits) | static_cast<std::uintptr_t>(next);
  }
  void leave_list() noexcept {
    listed_.unlink();
    std::destroy_at(&listed_);
    ::new (static_cast<void*>(&woken_)) woken_waiter(&resume_coroutine);
  }

  // The waiter that a member of the union belongs to.
  template <class Member>
  static waiter& owner_of(Member& member) noexcept {
    return reinterpret_cast<waiter&>(member);
  }
  static void resume_coroutine(operation& self) {
    resume(owner_of(static_cast<woken_waiter&>(self)).waiting_);
  }

  union {
    listed_waiter listed_;
    woken_waiter woken_;  // once it has left a list for good
  };
  std::coroutine_handle<> waiting_;
  std::uintptr_t state_ = 0;  // the context's address, has_callback_bit and the stage
};

/// The waiters of a primitive, first come, first served; belongs to its lock.
template <class Waiter>
class waiter_list {
 public:
  [[nodiscard]] bool empty() const noexcept { return listed_.empty(); }
  [[nodiscard]] Waiter& front() noexcept { return to_waiter(listed_.front()); }
  void push_back(waiter& arriving) noexcept { listed_.push_back(arriving.listed_); }
  /// Takes out `leaving`, which may join a list again.
  static void remove(Waiter& leaving) noexcept { static_cast<waiter&>(leaving).listed_.unlink(); }
  /// Takes out the first one; null if there is none.
  Waiter* pop_front() noexcept {
    listed_waiter* const first = listed_.pop_front();
    return first == nullptr ? nullptr : &to_waiter(*first);
  }

 private:
  static Waiter& to_waiter(listed_waiter& listed) noexcept {
    return static_cast<Waiter&>(waiter::owner_of(listed));
  }

  intrusive_list<listed_waiter> listed_;
};

/// Waiters that are completed under a lock, and woken after it: declare it before the lock.
class woken_waiters {
 public:
  woken_waiters() noexcept = default;
  woken_waiters& operator=(woken_waiters&&) = delete;
  ~woken_waiters() {
    if (count_ > 1 && one_executor_) {
      where_->post_all(ready_, count_);
    } else {
      while (operation* const each = ready_.pop_front()) {
        waiter::owner_of(static_cast<woken_waiter&>(*each)).wake();
      }
    }
  }

  /// With the lock of `served`, which is in a list, held.
  void complete(waiter& served) noexcept {
    served.complete();
    executor& where = served.where();
    if (count_++ == 0) where_ = &where;
    if (where_ != &where) one_executor_ = false;
    ready_.push_back(served.woken_);
  }

 private:
  intrusive_queue<operation> ready_;
  std::size_t count_ = 0;
  executor* where_ = nullptr;  // of the first
  bool one_executor_ = true;
};

}  // namespace gyre::detail
