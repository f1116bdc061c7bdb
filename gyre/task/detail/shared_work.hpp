// SPDX-License-Identifier: Apache-2.0
// shared_work: work that several coroutines await, of a shared_task or a join_handle, and its
// awaiter.
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

/// Throws std::logic_error.
[[noreturn, gnu::cold]] void throw_empty_shared_task();

template <class T>
using shared_result_t =
    std::conditional_t<std::is_object_v<T>, std::add_lvalue_reference_t<const T>, T>;

/// Shared work as a child of a coroutine that awaits it.
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

/// The awaiter of shared work. Holds a reference to the work while it is suspended, since the
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
  /// Throws if the wait was cancelled or refused. Called first in await_resume().
  void end_wait_or_throw() {
    if (progress_ != progress::ready) take_wait_outcome();
  }
  shared_work& work() const noexcept { return *work_; }
  /// Null unless the coroutine has suspended, as it does whenever the work has not ended.
  const task_context* context() const noexcept { return context_; }

 private:
  friend shared_work;

  enum class progress : std::uint8_t {
    ready,      // has not suspended
    suspended,  // waits, or is posted
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
  const task_context* context_ = nullptr;  // once it has suspended
  progress progress_ = progress::ready;    // belongs to the coroutine
  outcome outcome_ = outcome::result;      // belongs to the lock of the work
  std::optional<inplace_stop_callback<cancel>> on_stop_;
  [[no_unique_address]] traced_optional<shared_child> child_;  // while it is suspended
};

/// A task with its awaiters and a reference count. Runs in a context of its own.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): it deletes itself
class shared_work : public slab_object, protected task_context, protected operation {
 public:
  void acquire() noexcept {
    owners_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the caller is or has an owner
  }
  void release() noexcept {
    // release: pairs with the acquire, here as well, of the last to go.
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  bool is_done() const noexcept {
    // acquire, here and below: pairs with the release in wake_awaiters().
    return phase_.load(std::memory_order_acquire) >= phase::done;
  }
  /// Whether awaiting the work gives the result at once.
  bool is_ready() const noexcept { return phase_.load(std::memory_order_acquire) == phase::done; }
  bool is_abandoned() const noexcept {
    // relaxed: does not announce the result.
    const phase state = phase_.load(std::memory_order_relaxed);
    return state == phase::stopping || state == phase::stopped;
  }

 protected:
  /// `target` may be null: the work then runs on the executor of its first awaiter.
  explicit shared_work(executor* target, bool has_owner = false) noexcept;
  virtual ~shared_work() = default;

  // For work with an owner (join_handle), which counts as an awaiter: so the work continues when
  // all coroutines that await it were asked to stop, until the owner has left as well.

  /// Starts the work on its executor, by the owner. Throws what executor::post_discardable()
  /// throws.
  void start_owned(void (*discard)(operation& self) noexcept);
  /// The owner leaves. As the last awaiter it asks the work to stop.
  void remove_owner() noexcept;
  /// Whether a coroutine waits for the end of the work.
  bool has_waiters() noexcept {
    const std::lock_guard lock(mutex_);
    return !waiters_.empty();
  }
  /// Asks the work to stop; whoever awaits the work still gets its result. False if the work was
  /// asked before.
  bool request_stop() noexcept;
  /// Wakes the awaiters at the end of the work. Returns the one that the caller resumes, or null.
  /// The work may be gone at the return.
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

  // Returns the coroutine to resume.
  virtual std::coroutine_handle<> start(task_context& own_context) noexcept = 0;
  // Whether the task, which has ended, failed.
  virtual bool has_failed() const noexcept = 0;

  std::coroutine_handle<> add_waiter(shared_waiter& waiter) noexcept;
  void cancel_waiter(shared_waiter& waiter) noexcept;
  void remove_waiter(shared_waiter& waiter) noexcept;
  void unlock_and_stop(std::unique_lock<std::mutex>& lock) noexcept;

  executor* const target_;
  inplace_stop_source stop_source_;
  shared_work* next_to_stop_ = nullptr;  // see unlock_and_stop()
  atomic<unsigned> owners_{1};
  atomic<phase> phase_{phase::unstarted};  // set under the lock
  std::mutex mutex_;
  intrusive_list<shared_waiter> waiters_;  // belongs to the lock
  std::size_t awaiter_count_;              // the length of the list, and one for an owner
};

template <class T>
class shared_state final : public shared_work {
 public:
  shared_state(task<T>&& work, executor* target) noexcept
      : shared_work(target), work_(std::move(work)) {}

  /// A shared_task that is done.
  shared_result_t<T> result() const { return task_access::state(work_).shared_result(); }

 private:
  std::coroutine_handle<> start(task_context& own_context) noexcept override {
    return task_access::state(work_).prepare(own_context);
  }
  bool has_failed() const noexcept override { return task_access::state(work_).failed(); }

  task<T> work_;
};

}  // namespace gyre::detail
