// SPDX-License-Identifier: Apache-2.0
// from_callback: awaits an operation that reports its end by a callback.
//
//     gyre::task<int> read_async(device& from, std::span<std::byte> to) {
//       auto start = [&](gyre::completion<int> done) {
//         from.read(to, [done](int error, int bytes) {
//           error == 0 ? done.set_value(bytes) : done.set_error({error, std::system_category()});
//         });
//       };
//       auto reading = gyre::from_callback<int>(start, [&] { from.cancel(); });  // at a stop
//       co_return co_await std::move(reading);
//     }
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/wait_core.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <concepts>
#include <coroutine>
#include <exception>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre {

template <class T>
class completion;

namespace detail {

/// The state that a waiting coroutine and its completions share. The first to claim it sets the
/// result: a report, a stop, or the end of the last completion.
class callback_state : public slab_object, public resumption {  // NOLINT: it deletes itself
 public:
  using failure = std::variant<std::monostate, std::error_code, std::exception_ptr>;

  /// Whether the caller is the first, which then sets the outcome and calls publish().
  bool claim() noexcept { return core_.claim(right_to_report); }
  void publish() noexcept;
  bool fail(failure error) noexcept;

  void add_completion() noexcept {
    completions_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the caller has one
  }
  void end_completion() noexcept;

  // The waiting coroutine's.
  /// Whether the outcome is not there yet; then the coroutine will be resumed.
  bool must_wait() noexcept { return !core_.leave(starter); }
  /// Before the end of a coroutine that never got the outcome.
  void abandon() noexcept;
  void release() noexcept;

  executor* where = nullptr;

 protected:
  callback_state() noexcept = default;
  virtual ~callback_state() = default;

  failure error_;

 private:
  static constexpr wait_core::parties starter = 1;
  static constexpr wait_core::parties reporter = 2;
  static constexpr wait_core::parties right_to_report = 4;

  wait_core core_{starter | reporter | right_to_report};
  atomic<unsigned> completions_{1};
  atomic<unsigned> owners_{2};  // the coroutine, and all completions
};

template <class T>
class callback_outcome final : public callback_state {
 public:
  using stored = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  template <class... Arguments>
  bool set(Arguments&&... arguments) noexcept {
    if (!claim()) return false;
    try {
      value_.emplace(std::forward<Arguments>(arguments)...);
    } catch (...) {
      error_ = std::current_exception();
    }
    publish();
    return true;
  }

  T take(const task_context* context) {
    if (value_) [[likely]] {
      if constexpr (std::is_void_v<T>) {
        return;
      } else {
        return std::move(*value_);
      }
    }
    if (auto* code = std::get_if<std::error_code>(&error_)) throw_failure(*code, context);
    std::rethrow_exception(std::get<std::exception_ptr>(error_));
  }

 private:
  std::optional<stored> value_;
};

/// In place of `on_stop`: a stop ends the wait at once.
struct no_stop_function {};

template <class T, class Start, class OnStop>
class callback_awaiter {
 public:
  callback_awaiter(Start&& start, OnStop&& on_stop)
      : start_(std::move(start)), on_stop_(std::move(on_stop)) {}
  // Before it is awaited.
  callback_awaiter(callback_awaiter&& other) noexcept(std::is_nothrow_move_constructible_v<Start> &&
                                                      std::is_nothrow_move_constructible_v<OnStop>)
      : start_(std::move(other.start_)), on_stop_(std::move(other.on_stop_)) {}
  ~callback_awaiter() {
    if (state_ == nullptr) [[likely]]
      return;
    stopping_.reset();
    state_->abandon();
    state_->release();
  }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) {
    const task_context& context = context_of(awaiting);
    context_ = &context;
    state_ = new callback_outcome<T>;
    state_->waiting = awaiting;
    state_->where = context.where;
    completion<T> done(*state_);
    if (context.stop.stop_requested()) {
      done.set_error(std::make_error_code(std::errc::operation_canceled));
      return gives_way(context, awaiting);
    }
    start_(std::move(done));
    if (context.stop.stop_possible()) stopping_.emplace(context.stop, stop{this});
    return state_->must_wait();
  }
  T await_resume() {
    stopping_.reset();
    const struct owner {
      callback_outcome<T>* state;
      ~owner() { state->release(); }
    } owned{std::exchange(state_, nullptr)};
    return owned.state->take(context_);
  }

 private:
  struct stop {
    callback_awaiter* self;
    void operator()() const noexcept {
      if constexpr (std::same_as<OnStop, no_stop_function>) {
        self->state_->fail(std::make_error_code(std::errc::operation_canceled));
      } else {
        self->on_stop_();
      }
    }
  };

  Start start_;
  [[no_unique_address]] OnStop on_stop_;
  callback_outcome<T>* state_ = nullptr;
  const task_context* context_ = nullptr;
  std::optional<inplace_stop_callback<stop>> stopping_;
};

}  // namespace detail

/// A copyable promise of a T (an object or void), which reports the end of an operation to the
/// coroutine that awaits from_callback(). All copies report for one operation, so that one fits
/// into a std::function. The first report counts; later ones return false. Destroying the last copy
/// without a report throws std::system_error (std::future_errc::broken_promise) in the coroutine.
///
/// Thread-safety: several threads may report at once, through one object or through copies; other
/// members as those of a std::shared_ptr.
/// Lifetime: an object that was moved from or released may only be assigned to or destroyed.
template <class T>
class completion {
  using state = detail::callback_outcome<T>;

 public:
  completion(const completion& other) noexcept : state_(other.state_) {
    if (state_ != nullptr) state_->add_completion();
  }
  completion(completion&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  completion& operator=(completion other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~completion() {
    if (state_ != nullptr) state_->end_completion();
  }

  /// Reports the T made of `arguments`, or the exception that its constructor throws. Returns
  /// whether this is the first report.
  template <class... Arguments>
    requires std::constructible_from<typename state::stored, Arguments...>
  bool set_value(Arguments&&... arguments) const noexcept {
    return state_->set(std::forward<Arguments>(arguments)...);
  }
  /// Reports a std::system_error of `error`. Returns whether this is the first report.
  bool set_error(std::error_code error) const noexcept { return state_->fail(error); }
  /// Reports `error`, which must not be null. Returns whether this is the first report.
  bool set_exception(std::exception_ptr error) const noexcept {
    return state_->fail(std::move(error));
  }
  /// set_value(), so that a completion can itself be the callback.
  template <class... Arguments>
    requires std::constructible_from<typename state::stored, Arguments...>
  void operator()(Arguments&&... arguments) const noexcept {
    state_->set(std::forward<Arguments>(arguments)...);
  }

  /// Empties this object and returns a pointer, for the `user_data` of a C library. adopt() turns
  /// the pointer into a completion again, once; without adopt() the coroutine waits for ever.
  [[nodiscard]] void* release() noexcept { return std::exchange(state_, nullptr); }
  [[nodiscard]] static completion adopt(void* released) noexcept {
    return completion(*static_cast<state*>(released));
  }

 private:
  template <class, class, class>
  friend class detail::callback_awaiter;
  explicit completion(state& shared) noexcept : state_(&shared) {}

  state* state_;
};

/// Awaited, calls `start` with a completion<T>, waits for its report, and gives the value or throws
/// the error. `start` runs within the co_await and may report at once.
///
/// At a stop the first form ends the wait at once: the operation goes on, and its report is
/// dropped. The second form calls `on_stop`, to end the operation early, and goes on waiting for
/// the report. If a stop was requested before, `start` is not called.
///
/// Thread-safety: resumes on the coroutine's executor. `on_stop` runs on the thread that requests
/// the stop, maybe while or after the operation ends.
/// Lifetime: the arguments of the operation, such as a buffer, must live until the operation ends;
/// in the first form that may be long after the wait. A waiting coroutine may be destroyed as long
/// as no report (in the first form: no stop either) has begun; later reports are dropped.
/// Errors: those of `start`, reported ones. Throws gyre::operation_cancelled if a stop ended the
/// wait or made the operation report std::errc::operation_canceled. `on_stop` must not throw.
/// Complexity: an allocation from the slab. With GCC 12 name the returned object: see invoke().
template <class T = void, std::invocable<completion<T>> Start>
[[nodiscard]] auto from_callback(Start start) {
  return detail::callback_awaiter<T, Start, detail::no_stop_function>(std::move(start), {});
}
template <class T = void, std::invocable<completion<T>> Start, std::invocable OnStop>
[[nodiscard]] auto from_callback(Start start, OnStop on_stop) {
  return detail::callback_awaiter<T, Start, OnStop>(std::move(start), std::move(on_stop));
}

}  // namespace gyre
