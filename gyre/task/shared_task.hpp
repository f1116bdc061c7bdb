// SPDX-License-Identifier: Apache-2.0
// Work whose result several coroutines want.
//
//     gyre::shared_task<config> settings = load_settings();  // starts when first awaited
//
//     const config& here = co_await settings;  // as often, and from wherever one likes
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/child_set.hpp>
#include <gyre/task/detail/frame_traits.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace gyre {

namespace detail {

class shared_work;

/// Throws std::logic_error: an empty handle was awaited.
[[noreturn, gnu::cold]] void throw_empty_shared_task();

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

#if GYRE_ASYNC_BACKTRACE
/// Shared work as a child of a coroutine that awaits it.
class shared_child final : public child_set {
 public:
  template <class Promise>
  shared_child(shared_work& work, std::coroutine_handle<Promise> awaiting) noexcept : work_(work) {
    attach(awaiting);
  }
  void append_children(std::vector<task_context*>& to) override;

 private:
  shared_work& work_;
};
#endif

/// A coroutine that awaits shared work. From its suspension to its end it has a reference to the
/// work, since the handle that was awaited may go, or be given another value, meanwhile.
class shared_waiter : public resumption, public intrusive_list_node {
 public:
  explicit shared_waiter(shared_work& work) noexcept : work_(&work) {}
  shared_waiter(const shared_waiter& other) noexcept : shared_waiter(*other.work_) {}
  shared_waiter& operator=(const shared_waiter&) = delete;
  ~shared_waiter() {
    if (progress_ != progress::ready) [[unlikely]]
      leave();
  }

  static constexpr bool executor_affine = true;
  bool await_ready() const noexcept;
  template <has_context Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    waiting = awaiting;
    context_ = &context_of(awaiting);
#if GYRE_ASYNC_BACKTRACE
    child_.emplace(*work_, awaiting);
#endif
    return transfer_to(wait());
  }

 protected:
  /// Throws if the wait was cancelled or refused. First of all when it is over.
  void finish() {
    if (progress_ != progress::ready) end_wait();
  }
  shared_work& work() const noexcept { return *work_; }

 private:
  friend shared_work;

  enum class progress : std::uint8_t {
    ready,      // has not suspended
    suspended,  // waits, or was woken and has not gone on
    resumed,
  };
  enum class outcome : std::uint8_t { result, cancelled, refused };
  struct cancel {
    shared_waiter* self;
    void operator()() const noexcept;
  };

  std::coroutine_handle<> wait() noexcept;
  void end_wait();
  void leave() noexcept;

  shared_work* work_;
  const task_context* context_ = nullptr;  // once it has suspended
  progress progress_ = progress::ready;    // belongs to the coroutine
  outcome outcome_ = outcome::result;      // belongs to the lock of the work
  std::optional<inplace_stop_callback<cancel>> on_stop_;
#if GYRE_ASYNC_BACKTRACE
  std::optional<shared_child> child_;  // while it is suspended
#endif
};

/// A task, who awaits it, and how many refer to it. Runs in a context of its own.
class shared_work : public slab_object,
                    protected task_context,
                    operation {  // NOLINT: it deletes itself
 public:
  shared_work(const shared_work&) = delete;
  shared_work& operator=(const shared_work&) = delete;

  void acquire() noexcept {
    owners_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the caller is or has an owner
  }
  void release() noexcept {
    // release: pairs with the acquire, here as well, of the last to go.
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  bool is_done() const noexcept {
    return phase_.load(std::memory_order_acquire) >=
           phase::done;  // pairs with the release in end()
  }
  /// Whether it gives its result to anybody who asks.
  bool is_ready() const noexcept {
    return phase_.load(std::memory_order_acquire) == phase::done;  // as is_done()
  }
  bool is_abandoned() const noexcept {
    const phase now =
        phase_.load(std::memory_order_relaxed);  // relaxed: says nothing of the result
    return now == phase::stopping || now == phase::stopped;
  }

 protected:
  /// Runs on the executor of whoever awaits it first if `target` is null.
  explicit shared_work(executor* target) noexcept;
  virtual ~shared_work() = default;

 private:
  friend shared_waiter;
#if GYRE_ASYNC_BACKTRACE
  friend shared_child;
#endif

  // It goes from one to a later one.
  enum class phase : std::uint8_t {
    unstarted,
    running,
    stopping,  // asked to stop, since nobody awaits it any more
    done,
    stopped,  // has failed after that
  };

  // The coroutine, to be resumed.
  virtual std::coroutine_handle<> start(task_context& in) noexcept = 0;
  // Whether it is a value.
  virtual bool take_result() noexcept = 0;

  std::coroutine_handle<> enter(shared_waiter& waiter) noexcept;
  void cancel(shared_waiter& waiter) noexcept;
  void abandon(shared_waiter& waiter) noexcept;
  std::coroutine_handle<> begin(executor& first_awaiters) noexcept;
  std::coroutine_handle<> end() noexcept;
  void stop_unlocked(std::unique_lock<std::mutex>& lock) noexcept;

  executor* const target_;
  inplace_stop_source stop_source_;
  shared_work* next_to_stop_ = nullptr;  // see stop_unlocked()
  atomic<unsigned> owners_{1};
  atomic<phase> phase_{phase::unstarted};  // set under the lock
  std::mutex mutex_;
  intrusive_list<shared_waiter> waiters_;  // belongs to the lock
  std::size_t awaiting_ = 0;               // how many are in the list
};

template <class T>
class shared_state final : public shared_work {
 public:
  shared_state(task<T>&& work, executor* target) noexcept
      : shared_work(target), work_(std::move(work)) {}

  /// A shared_task that is done.
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

  std::coroutine_handle<> start(task_context& in) noexcept override {
    return task_access::state(work_).prepare(in);
  }
  bool take_result() noexcept override {
    error_ = task_access::state(work_).take_error();
    if (error_) return false;
    try {
      if constexpr (std::is_void_v<T>) {
        task_access::state(work_).take_result();
        result_.emplace();
      } else if constexpr (std::is_reference_v<T>) {
        result_ = std::addressof(task_access::state(work_).take_result());
      } else {
        result_.emplace(task_access::state(work_).take_result());
      }
      return true;
    } catch (...) {
      error_ = std::current_exception();
      return false;
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
/// same exception object. Each awaiter goes on on its own executor.
///
/// The work runs on the executor of its first awaiter, or on the one it was made with; that
/// executor must outlive the work. So name one where the first awaiter's may go earlier, as that of
/// a sync_wait() which is cancelled. The work has a stop token of its own, and no task-local
/// values.
///
/// Stopping: an awaiter that is asked to stop leaves at once, with operation_cancelled, as
/// long as others wait. The last one asks the work to stop and waits for its end, so that work
/// never runs on without anybody waiting; its wait ends as the work does. If the last awaiter's
/// coroutine is destroyed while it waits, the work is asked to stop, and ends on its own. From then
/// on the work is abandoned, and nobody can join it: awaiting it is refused with
/// std::errc::owner_dead, before anything is waited for, because its end would tell of a stop that
/// the new awaiter was not asked for. Work that ends with a value all the same is not abandoned any
/// more. A cache of work in flight starts it again:
///
///     try {
///       co_return co_await loading;
///     } catch (const std::system_error& error) {
///       if (error.code() != std::errc::owner_dead) throw;
///     }
///     // loading.is_abandoned(): replace it, unless another awaiter has done so already.
///
/// Thread-safety: one handle is used by one thread at a time; copies of it may be awaited, copied
/// and destroyed on any threads at once.
/// Lifetime: a handle may be destroyed or assigned to while it is awaited.
/// Errors: awaiting throws what the work throws; std::logic_error if the handle is empty;
/// operation_cancelled, and std::system_error with std::errc::owner_dead, see above.
/// Complexity: copying is an atomic increment, awaiting what is done a load, awaiting otherwise a
/// short lock. The handle's state and the coroutine's frame come from the slab; awaiting allocates
/// nothing. The stack does not grow with the length of a chain of shared tasks that await each
/// other.
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
  /// Whether the work has ended, so that awaiting it does not wait. Any thread.
  [[nodiscard]] bool is_done() const noexcept { return state_ != nullptr && state_->is_done(); }
  /// Whether the last awaiter left before the work had ended, and the work has not succeeded since:
  /// awaiting it is refused. May become true while it is awaited, and false when the work succeeds.
  /// Any thread.
  [[nodiscard]] bool is_abandoned() const noexcept {
    return state_ != nullptr && state_->is_abandoned();
  }

  auto operator co_await() const& { return awaiter(work()); }
 auto operator co_await() &&
     requires(!std::is_object_v<T> || std::copy_constructible<T>) {
       return copying_awaiter(work());
     }

     private : state& work() const {
    if (state_ == nullptr) [[unlikely]]
      detail::throw_empty_shared_task();
    return *state_;
  }

  shared_task(task<T>&& work, executor* where) {
    if (!work.valid()) detail::throw_empty_task();
    state_ = new state(std::move(work), where);
  }

  state* state_ = nullptr;
};

}  // namespace gyre
