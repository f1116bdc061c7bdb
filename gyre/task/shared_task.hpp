// SPDX-License-Identifier: Apache-2.0
// Work whose result several coroutines want.
//
//     gyre::shared_task<config> settings = load_settings();  // starts when first awaited
//
//     const config& here = co_await settings;  // as often, and from wherever one likes
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/slab.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/frame_traits.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre {

namespace detail {

class shared_work;

template <class T>
struct shared_result {
  using type = const T&;
};
template <class T>
struct shared_result<T&> {
  using type = T&;
};
template <>
struct shared_result<void> {
  using type = void;
};
template <class T>
using shared_result_t = typename shared_result<T>::type;

/// A coroutine that awaits shared work.
class shared_waiter : public resumption, public intrusive_list_node {
 public:
  explicit shared_waiter(shared_work& work) noexcept : work_(&work) {}
  shared_waiter(const shared_waiter& other) noexcept : shared_waiter(*other.work_) {}
  shared_waiter& operator=(const shared_waiter&) = delete;
  ~shared_waiter() {
    if (context_ != nullptr) [[unlikely]]
      abandon();
  }

  bool await_ready() const noexcept;
  template <has_context Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    waiting = awaiting;
    context_ = &context_of(awaiting);
    return wait();
  }

 protected:
  /// Throws if the wait was cancelled. First of all when it is over.
  void finish() {
    if (context_ != nullptr) end_wait();
  }
  shared_work& work() const noexcept { return *work_; }

 private:
  friend shared_work;

  struct cancel {
    shared_waiter* self;
    void operator()() const noexcept;
  };

  bool wait() noexcept;
  void end_wait();
  void abandon() noexcept;

  shared_work* work_;
  const task_context* context_ = nullptr;  // null unless its coroutine is suspended
  bool is_cancelled_ = false;              // belongs to the lock of the work
  std::optional<inplace_stop_callback<cancel>> on_stop_;
};

/// A task, who awaits it, and how many refer to it. Runs in a context of its own.
class shared_work : protected task_context, operation {  // NOLINT: it deletes itself
 public:
  shared_work(const shared_work&) = delete;
  shared_work& operator=(const shared_work&) = delete;

  static void* operator new(std::size_t bytes) { return slab_allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept {
    slab_deallocate(memory, bytes);
  }

  void acquire() noexcept {
    owners_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the caller is or has an owner
  }
  void release() noexcept {
    // release: pairs with the acquire, here as well, of the last to go.
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  bool is_done() const noexcept {
    return is_done_.load(std::memory_order_acquire);  // pairs with the release in end()
  }

 protected:
  /// Runs on the executor of whoever awaits it first if `target` is null.
  explicit shared_work(executor* target) noexcept;
  virtual ~shared_work() = default;

 private:
  friend shared_waiter;

  virtual void start(task_context& in) noexcept = 0;
  virtual void take_result() noexcept = 0;

  bool enter(shared_waiter& waiter) noexcept;
  void cancel(shared_waiter& waiter) noexcept;
  void abandon(shared_waiter& waiter) noexcept;
  void begin(executor& first_awaiters) noexcept;
  std::coroutine_handle<> end() noexcept;
  void stop_unlocked(std::unique_lock<std::mutex>& lock) noexcept;

  executor* const target_;
  inplace_stop_source stop_source_;
  atomic<unsigned> owners_{1};
  atomic<bool> is_done_{false};  // set under the lock
  std::mutex mutex_;
  // Belong to the lock.
  bool is_started_ = false;
  std::size_t awaiting_ = 0;  // those in the list, and the first while it starts the work
  intrusive_list<shared_waiter> waiters_;
};

template <class T>
class shared_state final : public shared_work {
 public:
  shared_state(task<T>&& work, executor* target) noexcept
      : shared_work(target), work_(std::move(work)) {}

  /// Of work that is done.
  shared_result_t<T> result() const {
    if (error_) [[unlikely]]
      std::rethrow_exception(error_);
    if constexpr (std::is_reference_v<T>) {
      return **result_;
    } else if constexpr (!std::is_void_v<T>) {
      return *result_;
    }
  }

 private:
  using stored = std::conditional_t<
      std::is_void_v<T>, std::monostate,
      std::conditional_t<std::is_reference_v<T>, std::add_pointer_t<T>, std::remove_cv_t<T>>>;

  void start(task_context& in) noexcept override { task_access::state(work_).start(in); }
  void take_result() noexcept override {
    try {
      if constexpr (std::is_void_v<T>) {
        task_access::state(work_).take_result();
        result_.emplace();
      } else if constexpr (std::is_reference_v<T>) {
        result_ = std::addressof(task_access::state(work_).take_result());
      } else {
        result_.emplace(task_access::state(work_).take_result());
      }
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  task<T> work_;
  std::optional<stored> result_;
  std::exception_ptr error_;
};

}  // namespace detail

/// A handle on a coroutine that runs once, when it is first awaited, for all who await it or copies
/// of the handle. Return type of a coroutine, or made from any task.
///
/// Awaiting it gives `const T&` (`T` if that is a reference or void), which lives as long as any
/// copy of the handle; awaiting an rvalue gives a copy of the result. All awaiters are rethrown the
/// same exception object. Awaiters may be on any threads; each goes on on its own executor.
///
/// The work runs on the executor of its first awaiter, or on the one it was made with; that
/// executor must outlive the work. So name one where the first awaiter's may go earlier, as that of
/// a sync_wait() which is cancelled. The work has a stop token of its own, and no task-local
/// values. An awaiter that is asked to stop leaves at once, with std::errc::operation_canceled, as
/// long as others wait. The last one asks the work to stop and waits for its end, so that work
/// never runs on without anybody waiting; it gets what that is. Who comes later gets that too, also
/// if it is the error of work that was stopped. If the last awaiter's coroutine is destroyed while
/// it waits, the work is asked to stop, and ends on its own.
///
/// Copying is an atomic increment, awaiting what is done a load, awaiting otherwise a short lock;
/// the handle's state and the coroutine's frame come from the slab. Awaiting allocates nothing. An
/// empty handle must not be awaited.
template <class T = void>
class [[nodiscard]] shared_task {
  using state = detail::shared_state<T>;

  class awaiter : public detail::shared_waiter {
   public:
    using detail::shared_waiter::shared_waiter;
    detail::shared_result_t<T> await_resume() {
      this->finish();
      return static_cast<state&>(this->work()).result();
    }
  };
  class copying_awaiter : public detail::shared_waiter {
   public:
    using detail::shared_waiter::shared_waiter;
    std::remove_cv_t<T> await_resume() {
      this->finish();
      return static_cast<state&>(this->work()).result();
    }
  };

 public:
  using promise_type = typename task<T>::promise_type;
  using value_type = T;

  /// An empty handle.
  shared_task() noexcept = default;
  /// Throws std::logic_error if `work` is empty.
  shared_task(task<T> work) : shared_task(std::move(work), nullptr) {}  // NOLINT: return type
  /// The same, to run on `where`.
  shared_task(task<T> work, executor& where) : shared_task(std::move(work), &where) {}

  shared_task(const shared_task& other) noexcept : state_(other.state_) {
    if (state_ != nullptr) state_->acquire();
  }
  shared_task(shared_task&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  shared_task& operator=(shared_task other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~shared_task() {
    if (state_ != nullptr) state_->release();
  }

  /// Whether it is a handle on anything.
  [[nodiscard]] bool valid() const noexcept { return state_ != nullptr; }
  /// Whether the result is there, so that awaiting it does not wait. Any thread.
  [[nodiscard]] bool is_done() const noexcept { return state_ != nullptr && state_->is_done(); }

  auto operator co_await() const& noexcept { return awaiter(*state_); }
  auto operator co_await() && noexcept
    requires(!std::is_object_v<T> || std::copy_constructible<T>)
  {
    return copying_awaiter(*state_);
  }

 private:
  shared_task(task<T>&& work, executor* where) {
    if (!work.valid()) detail::throw_empty_task();
    state_ = new state(std::move(work), where);
  }

  state* state_ = nullptr;
};

}  // namespace gyre
