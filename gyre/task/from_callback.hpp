// SPDX-License-Identifier: Apache-2.0
// from_callback: awaits an operation that reports its completion by a callback.
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

#include <gyre/task/detail/callback_state.hpp>

#include <concepts>
#include <exception>
#include <system_error>
#include <utility>

namespace gyre {

/// A copyable promise of a T (an object or void), which reports the end of an operation to the
/// coroutine that awaits from_callback(). All copies report for one operation, so that one copy
/// fits into a std::function. The first report counts; later reports return false. Destroying the
/// last copy without a report throws std::system_error (std::future_errc::broken_promise) in the
/// coroutine.
///
/// Thread-safety: several threads may report at once, through one object or through copies; the
/// other members are as thread-safe as those of a std::shared_ptr.
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

  /// Reports the T that is constructed from `arguments`, or the exception that its constructor
  /// throws. Returns whether this is the first report.
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
  /// Calls set_value(), so that a completion can itself be the callback.
  template <class... Arguments>
    requires std::constructible_from<typename state::stored, Arguments...>
  void operator()(Arguments&&... arguments) const noexcept {
    state_->set(std::forward<Arguments>(arguments)...);
  }

  /// Empties this object and returns a pointer that can serve as the `user_data` of a C library.
  /// adopt() turns the pointer into a completion again, once; without adopt() the coroutine waits
  /// for ever.
  [[nodiscard]] void* release() noexcept { return std::exchange(state_, nullptr); }
  [[nodiscard]] static completion adopt(void* pointer) noexcept {
    return completion(*static_cast<state*>(pointer));
  }

 private:
  template <class, class, class>
  friend class detail::callback_awaiter;
  explicit completion(state& shared_state) noexcept : state_(&shared_state) {}

  state* state_;
};

/// Awaited, calls `start` with a completion<T>, waits for its report, and returns the value or
/// throws the error. `start` runs within the co_await and may report at once.
///
/// When a stop is requested, the first form ends the wait at once: the operation continues, and its
/// report is dropped. The second form calls `on_stop`, to end the operation early, and still waits
/// for the report. If a stop was requested before the await, `start` is not called.
///
/// Thread-safety: resumes on the coroutine's executor. `on_stop` runs on the thread that requests
/// the stop, possibly while or after the operation ends.
/// Lifetime: the arguments of the operation, such as a buffer, must live until the operation ends;
/// in the first form that may be long after the wait. A waiting coroutine may be destroyed as long
/// as no report (in the first form: no stop either) has begun; later reports are dropped.
/// Errors: those of `start`, and reported ones. Throws gyre::operation_cancelled if a stop ended
/// the wait or made the operation report std::errc::operation_canceled. `on_stop` must not throw.
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
