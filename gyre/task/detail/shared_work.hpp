// SPDX-License-Identifier: Apache-2.0
// shared_work: the work of a shared_task or a join_handle, which several coroutines may await;
// shared_waiter: its awaiter.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/child_set.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre::detail {

class shared_work;

/// Throws the std::logic_error for an await of an empty shared_task.
[[noreturn, gnu::cold]] void throw_empty_shared_task();

template <class T>
using shared_result_t =
    std::conditional_t<std::is_object_v<T>, std::add_lvalue_reference_t<const T>, T>;

/// Lists shared work as a child of a coroutine that awaits it.
class shared_child final : public child_set {
 public:
  template <class Promise>
  shared_child(shared_work& work, std::coroutine_handle<Promise> coroutine) noexcept : work_(work) {
    attach(coroutine);
  }
  void append_children(std::vector<task_context*>& contexts);

 private:
  shared_work& work_;
};

/// The awaiter of shared work. Owns a share of the work while the coroutine is suspended, since the
/// handle may be destroyed or assigned to meanwhile.
class shared_waiter : public resumption, public intrusive_list_node {
 public:
  explicit shared_waiter(shared_work& work) noexcept : work_(&work) {}
  shared_waiter(const shared_waiter& other) noexcept : shared_waiter(*other.work_) {}
  shared_waiter& operator=(const shared_waiter&) = delete;
  ~shared_waiter() {
    if (progress_ != progress::ready) [[unlikely]]
      leave_work();
  }

  static constexpr bool executor_affine = true;
  bool await_ready() const noexcept;
  template <has_context Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    waiting = coroutine;
    context_ = &context_of(coroutine);
    child_.emplace(*work_, coroutine);
    return transfer_to(wait());
  }

 protected:
  /// Throws if the wait was cancelled or refused. Must be called first in await_resume().
  void end_wait_or_throw() {
    if (progress_ != progress::ready) take_wait_outcome();
  }
  shared_work& work() const noexcept { return *work_; }
  /// Returns the context of the coroutine; null if the work had ended before the await, so that the
  /// coroutine did not suspend.
  const task_context* context() const noexcept { return context_; }

 private:
  friend shared_work;

  enum class progress : std::uint8_t {
    ready,      // the coroutine has not yet suspended
    suspended,  // the coroutine waits, or its resumption is posted
    resumed,
  };
  enum class outcome : std::uint8_t { result, cancelled, refused };
  struct cancel {
    shared_waiter* self;
    void operator()() const noexcept;
  };

  std::coroutine_handle<> wait() noexcept;
  void take_wait_outcome();
  void leave_work() noexcept;

  shared_work* work_;
  const task_context* context_ = nullptr;  // the coroutine's context after its suspension
  progress progress_ = progress::ready;    // only the coroutine uses it
  outcome outcome_ = outcome::result;      // guarded by the lock of the work
  std::optional<inplace_stop_callback<cancel>> on_stop_;
  // Set while the coroutine is suspended.
  [[no_unique_address]] traced_optional<shared_child> child_;
};

/// A task with its awaiters, a context of its own, and a count of owners.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): it deletes itself
class shared_work : public slab_object, protected task_context, protected operation {
 public:
  void acquire() noexcept {
    // relaxed: the caller is an owner or holds one, so the count is above zero.
    owners_.fetch_add(1, std::memory_order_relaxed);
  }
  void release() noexcept {
    // acquire and release: the decrement that reaches zero synchronises with all others, so that
    // the deletion comes after every access.
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  bool is_done() const noexcept {
    // acquire, here and below: pairs with the release in wake_awaiters(); makes the result visible.
    return phase_.load(std::memory_order_acquire) >= phase::done;
  }
  /// Returns whether an await of the work returns at once, with the result.
  bool is_ready() const noexcept { return phase_.load(std::memory_order_acquire) == phase::done; }
  bool is_abandoned() const noexcept {
    // relaxed: neither phase announces the result.
    const phase state = phase_.load(std::memory_order_relaxed);
    return state == phase::stopping || state == phase::stopped;
  }

 protected:
  /// Makes work for the executor `target`; if that is null, the work runs on the executor of its
  /// first awaiter.
  explicit shared_work(executor* target, bool has_owner = false) noexcept;
  virtual ~shared_work() = default;

  // The owner of work (join_handle) counts as an awaiter. So work whose other awaiters were all
  // asked to stop continues until the owner has left as well.

  /// Starts the work on its executor. Called by the owner. Throws the exceptions of
  /// executor::post_discardable().
  void start_owned(void (*discard)(operation& self) noexcept);
  /// Removes the owner from the awaiters, and asks the work to stop if there is no other awaiter.
  void remove_owner() noexcept;
  /// Returns whether a coroutine waits for the end of the work.
  bool has_waiters() noexcept {
    const std::lock_guard lock(mutex_);
    return !waiters_.empty();
  }
  /// Asks the work to stop; its awaiters still receive its result. Returns false if the work was
  /// asked before.
  bool request_stop() noexcept;
  /// Wakes the awaiters when the work has ended. Returns the coroutine that the caller must resume,
  /// or null. The work may have been destroyed when this function returns.
  std::coroutine_handle<> wake_awaiters() noexcept;

 private:
  friend shared_waiter;
  friend shared_child;

  // | phase | first await | last awaiter leaves | ends with a value | ends with an error |
  // |---|---|---|---|---|
  // | unstarted | running | - | - | - |
  // | running | - | stopping | done | done |
  // | stopping | refused | - | done | stopped |
  // | done | result | - | - | - |
  // | stopped | refused | - | - | - |
  enum class phase : std::uint8_t { unstarted, running, stopping, done, stopped };

  // Prepares the work to run in `own_context`. Returns the coroutine to resume.
  virtual std::coroutine_handle<> start(task_context& own_context) noexcept = 0;
  // Returns whether the task has failed. Called when the task has ended.
  virtual bool has_failed() const noexcept = 0;

  std::coroutine_handle<> add_waiter(shared_waiter& waiter) noexcept;
  void cancel_waiter(shared_waiter& waiter) noexcept;
  void remove_waiter(shared_waiter& waiter) noexcept;
  void unlock_and_stop(std::unique_lock<std::mutex>& lock) noexcept;

  executor* const target_;
  inplace_stop_source stop_source_;
  // The next shared_work in the list of those to be stopped: see unlock_and_stop().
  shared_work* next_to_stop_ = nullptr;
  atomic<unsigned> owners_{1};
  atomic<phase> phase_{phase::unstarted};  // changes only with the lock held
  std::mutex mutex_;
  intrusive_list<shared_waiter> waiters_;  // protected by mutex_
  std::size_t awaiter_count_;              // the length of waiters_, plus one for an owner
};

template <class T>
class shared_state final : public shared_work {
 public:
  shared_state(task<T>&& work, executor* target) noexcept
      : shared_work(target), work_(std::move(work)) {}

  /// Returns the result of a shared_task. Requires is_done().
  shared_result_t<T> result() const { return task_access::state(work_).shared_result(); }

 private:
  std::coroutine_handle<> start(task_context& own_context) noexcept override {
    return task_access::state(work_).prepare(own_context);
  }
  bool has_failed() const noexcept override { return task_access::state(work_).failed(); }

  task<T> work_;
};

}  // namespace gyre::detail
