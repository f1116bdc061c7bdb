// SPDX-License-Identifier: Apache-2.0
// task_state: the coroutine of a task and its promise, later the task's result.
#pragma once

#include <gyre/base/detail/block_cache.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/await_transform.hpp>
#include <gyre/task/detail/frame.hpp>
#include <gyre/task/detail/new_coroutine.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <concepts>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

namespace gyre {

template <class T = void>
class task;

namespace detail {

struct no_result {};
/// The type in which a result of type T is stored.
template <class T>
using stored_result_t =
    std::conditional_t<std::is_void_v<T>, no_result,
                       std::conditional_t<std::is_reference_v<T>, std::add_pointer_t<T>, T>>;

/// Whether the stored result of type T must be destroyed.
template <class T>
inline constexpr bool needs_destructor = !std::is_trivially_destructible_v<stored_result_t<T>>;

/// The state of a task in one word: the address of the awaiting coroutine, and flags. A coroutine
/// that succeeds only reads the word, if its result is trivial and the coroutine is awaited.
///
/// | word | state | await | return, trivial | return | throw | take_result() |
/// |---|---|---|---|---|---|---|
/// | 0 | empty | logic_error | - | - | - | - |
/// | ready | not awaited | address | has_value | has_value | has_error | - |
/// | address | awaited | - | address | address, has_value | address, has_error | - |
/// | …, has_value | has a result | - | - | replaced | has_error | 0 |
/// | …, has_error | has an exception | - | - | - | - | 0, throws |
/// | detached | is a detached_end | - | detached | - | detached | - |
///
/// A task that was started in a context of its own keeps the word "ready". A trivial result has no
/// destructor; it sets no flag while a coroutine awaits it. A plain frame (frame.hpp) may be too
/// large for a block of a slab: then "ready" has the flag `large`, and the address has the flag
/// `ready`.
class task_end {
 public:
  bool empty() const noexcept { return word_ == 0; }
  bool is_unawaited() const noexcept { return (word_ & ~large) == ready; }
  bool failed() const noexcept { return (word_ & has_error) != 0; }
  bool is_detached() const noexcept { return word_ == detached; }

  /// Returns the awaiting coroutine; null if context.finished() returns the coroutine to resume.
  std::coroutine_handle<> continuation() const noexcept {
    return std::coroutine_handle<>::from_address(reinterpret_cast<void*>(word_ & ~flags));
  }
  /// Returns whether the coroutine has a result and an awaiting coroutine, and its frame, if it is
  /// a plain one, is a block of a slab. Called when the coroutine has ended.
  bool has_success_for_awaiter() const noexcept { return (word_ & (has_error | ready)) == 0; }
  /// Returns the awaiting coroutine. Requires has_success_for_awaiter().
  template <class T>
  std::coroutine_handle<> continuation_after_success() const noexcept {
    return std::coroutine_handle<>::from_address(
        reinterpret_cast<void*>(word_ - (needs_destructor<T> ? has_value : 0)));
  }
  /// Records the end of a coroutine that has no awaiting coroutine.
  void end_without_continuation() noexcept { word_ = failed() ? has_error : has_value; }
  /// Drops the coroutine without destroying it.
  void abandon() noexcept { word_ = 0; }

 protected:
  static constexpr std::uintptr_t has_error = 1;
  static constexpr std::uintptr_t has_value = 2;
  static constexpr std::uintptr_t ready = 4;
  static constexpr std::uintptr_t flags = 7;
  // Never combined with an address, which may have this bit.
  static constexpr std::uintptr_t large = 8;
  // The combination of these flags has no other meaning.
  static constexpr std::uintptr_t detached = ready | has_value;

  constexpr explicit task_end(std::uintptr_t begin) noexcept : word_(begin) {}

  std::uintptr_t word_;
};

/// The end of coroutines without a result, each in a context of its own, whose tasks are not kept.
/// Nothing writes it when they end, so that one object serves any number of them, on any threads.
class detached_end : public task_end {
 public:
  /// Receives the exception of a coroutine before the coroutine's frame is freed.
  using error_receiver = void(const detached_end& self, const std::exception_ptr& error) noexcept;

  constexpr explicit detached_end(error_receiver* receiver) noexcept
      : task_end(detached), receive_error_(receiver) {}

  void receive_error(const std::exception_ptr& error) const noexcept {
    receive_error_(*this, error);
  }

 private:
  error_receiver* receive_error_;
};

/// Ends the program if `error`, which left a detached coroutine, is not cancellation().
[[gnu::cold]] void end_detached(const std::exception_ptr& error) noexcept;
/// Passes the exception of a coroutine to `end`, a detached_end. Without the second argument: the
/// exception being handled.
[[gnu::cold]] void fail_detached(const task_end& end, const std::exception_ptr& error) noexcept;
[[gnu::cold]] void fail_detached(const task_end& end) noexcept;

/// Throws the std::logic_error for an await of an empty task.
[[noreturn, gnu::cold]] void throw_empty_task();
/// Resumes `first`, a concurrent child, until it suspends. Calls nest if `first` itself starts
/// children; at some depth `first` starts in the queue of `target` instead, so that the stack is
/// bounded.
void start_nested(std::coroutine_handle<> first, executor& target) noexcept;
[[noreturn, gnu::cold, gnu::noinline]] void rethrow_and_clear(std::exception_ptr& error);

/// Constructs the exception_ptr `error` with caught_error().
[[gnu::cold]] void catch_into(std::exception_ptr* error) noexcept;

struct task_promise_base : awaiting_promise, slab_frame {
  union {
    task_end* end;
    // Used in a plain frame until get_return_object() has passed the flag to the task.
    bool is_large;
  };
};

/// Frees the frame `self` of a coroutine that failed or is not awaited, and returns the coroutine
/// to resume. Out of line, so that coroutines need not keep their context in a register.
[[gnu::noinline]] std::coroutine_handle<> end_failed_or_unawaited(
    task_promise_base& promise, std::coroutine_handle<> self) noexcept;

/// Returns the std::logic_error of a coroutine that ended without a result.
[[gnu::cold]] std::exception_ptr missing_result();

/// The final awaiter: frees the frame, since the task holds the result, and transfers to the
/// awaiting coroutine.
template <class T>
struct task_final_awaiter {
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> self) const noexcept {
    task_promise_base& promise = self.promise();
    promise.context->trace.innermost.set(promise.trace.awaited_by.get());
    if constexpr (records_backtraces && !std::is_void_v<T>) {
      if (!self.promise().returned.get() && !promise.end->failed()) [[unlikely]]
        self.promise().fail(missing_result());
    }
    // The two branches have the same effect; each compiler needs fewer instructions for its own
    // branch.
#ifdef __clang__
    const std::coroutine_handle<> next = promise.end->continuation();
    if (!next) [[unlikely]]
      return transfer_to(end_failed_or_unawaited(promise, self));
    self.destroy();
    return transfer_to(next);
#else
    const task_end& end = *promise.end;
    if (!end.has_success_for_awaiter()) [[unlikely]]
      return transfer_to(end_failed_or_unawaited(promise, self));
    const std::coroutine_handle<> next = end.continuation_after_success<T>();
    if constexpr (has_plain_frame<Promise>) {
      deallocate_frame(self.address());
    } else {
      self.destroy();
    }
    return transfer_to(next);
#endif
  }
  static constexpr void await_resume() noexcept {}
};

template <class T>
class task_state;

template <class T>
class task_promise_result : public task_promise_base {
 public:
  template <class U = T>
    requires std::convertible_to<U, T>
  void return_value(U&& value) noexcept(std::is_nothrow_constructible_v<T, U>) {
    static_cast<task_state<T>*>(this->end)->emplace(std::forward<U>(value));
    returned.set(true);
  }
  [[no_unique_address]] traced_field<bool> returned;
};

template <>
class task_promise_result<void> : public task_promise_base {
 public:
  void return_void() noexcept {}
};

/// The coroutine of a task until it has finished, then the task's result. Also the task's awaiter.
template <class T>
class task_state : public task_end {
 public:
  class promise_type : public task_promise_result<T> {
   public:
    // Names this class, which excludes promises that derive from it.
    using frees_plain_frames = promise_type;
    task<T> get_return_object(bool is_large_frame = false) noexcept {
      return task<T>(handle_of_new(*this), is_large_frame);
    }
    static constexpr std::suspend_always initial_suspend() noexcept { return {}; }
    static constexpr task_final_awaiter<T> final_suspend() noexcept { return {}; }
    void unhandled_exception() noexcept { task_state::fail(*this->end); }
    void fail(std::exception_ptr error) noexcept {
      if (std::is_void_v<T> && this->end->is_detached()) return fail_detached(*this->end, error);
      static_cast<task_state*>(this->end)->fail(std::move(error));
    }
  };
  using handle = std::coroutine_handle<promise_type>;

  task_state() noexcept : task_end(0), coroutine_() {}
  explicit task_state(handle coroutine, bool is_large = false) noexcept
      : task_end(is_large ? ready | large : ready), coroutine_(coroutine) {}
  task_state(task_state&& other) noexcept : task_end(other.word_) { take(other); }
  task_state& operator=(task_state&& other) noexcept {
    if (this != &other) {
      reset();
      word_ = other.word_;
      take(other);
    }
    return *this;
  }
  ~task_state() { reset(); }

  constexpr bool await_ready() const noexcept { return false; }
  template <has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> coroutine) {
    return transfer_to(prepare(coroutine));
  }
  /// Prepares the coroutine for the await by `coroutine`, and returns the task's coroutine, which
  /// the caller must resume.
  template <has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> prepare(std::coroutine_handle<Promise> coroutine) {
    if (!is_unawaited()) [[unlikely]]
      throw_empty_task();
    static_assert(large / 2 == ready);
    word_ = reinterpret_cast<std::uintptr_t>(coroutine.address()) | (word_ & large) / 2;
    promise_type& promise = coroutine_.promise();
    promise.end = this;
    promise.context = &context_of(coroutine);
    promise.trace.awaited_by.set(promise_of(coroutine));
    return coroutine_;
  }
  T await_resume() { return take_result(); }
  /// Prepares the coroutine to run in `context` and to transfer to the frame `next` when it ends.
  /// Sets `start` to the coroutine that the caller must resume. Returns false if the task is empty.
  bool try_prepare(std::coroutine_handle<> next, task_context& context,
                   std::coroutine_handle<>& start) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(next.address());
    if (word_ == ready) [[likely]] {
      word_ = address;
    } else if (is_unawaited()) {
      word_ = address | ready;
    } else {
      return false;
    }
    const handle coroutine = coroutine_;
    coroutine.promise().end = this;
    coroutine.promise().context = &context;
    start = coroutine;
    return true;
  }

  /// Runs the coroutine in `context`, a context of its own, until it suspends. When the coroutine
  /// ends, it calls context.finished().
  void start(task_context& context) { resume(prepare(context)); }
  /// Prepares the coroutine for start(), and returns the coroutine that the caller must resume.
  std::coroutine_handle<> prepare(task_context& context) {
    if (!is_unawaited()) [[unlikely]]
      throw_empty_task();
    word_ = ready;
    promise_type& promise = coroutine_.promise();
    promise.end = this;
    promise.context = &context;
    if constexpr (records_backtraces) {
      context.trace.innermost.set(&promise);
      context.trace.outermost.set(this);
      context.trace.destroy.set(&destroy_failed);
    }
    return coroutine_;
  }
  /// Runs the coroutine like start(), but lets `end` replace the task, which becomes empty.
  void start_detached(task_context& context, detached_end& end)
    requires std::is_void_v<T>
  {
    if (!is_unawaited()) [[unlikely]]
      throw_empty_task();
    const handle coroutine = coroutine_;
    word_ = 0;
    coroutine.promise().end = &end;
    coroutine.promise().context = &context;
    context.trace.innermost.set(&coroutine.promise());
    resume(coroutine);
  }
  /// Starts the coroutine as a concurrent child of another one: see start_nested().
  void start_child(task_context& context) { start_nested(prepare(context), *context.where); }

  /// Makes an empty task one that has failed with `error`, and returns its task_end; returns null
  /// if the task is not empty.
  [[gnu::cold]] const task_end* fail_if_empty(std::exception_ptr error) noexcept {
    if (!empty()) return nullptr;
    fail(std::move(error));
    return this;
  }

  /// Returns the exception of a coroutine that has failed, else null. Must not be followed by
  /// take_result() if an exception was returned.
  std::exception_ptr take_error() noexcept {
    if (!failed()) [[likely]]
      return nullptr;
    word_ = 0;
    std::exception_ptr error = std::move(error_);
    std::destroy_at(&error_);
    return error;
  }
  /// Returns the result of a coroutine that has finished, without removing it, or throws the
  /// coroutine's exception.
  decltype(auto) shared_result() const {
    if (failed()) [[unlikely]]
      std::rethrow_exception(error_);
    if constexpr (std::is_reference_v<T>) {
      return static_cast<T>(*value_);
    } else if constexpr (!std::is_void_v<T>) {
      return (value_);
    }
  }
  /// Moves the result of a coroutine that has ended and is not awaited to `result`. Returns false
  /// if the coroutine has failed.
  template <std::same_as<T> Result>
  bool move_result(Result& result) noexcept {
    if (failed()) [[unlikely]] {
      end_without_continuation();
      return false;
    }
    result = take_success();
    return true;
  }
  /// Returns the result of a coroutine that has finished, or throws the coroutine's exception.
  /// Called once.
  T take_result() {
    if (failed()) [[unlikely]]
      rethrow();
    return take_success();
  }
  /// Returns the result of a coroutine that has finished and not failed. Called once.
  T take_success() {
    if constexpr (std::is_void_v<T>) {
      word_ = 0;
    } else if constexpr (std::is_reference_v<T>) {
      word_ = 0;
      return static_cast<T>(*value_);
    } else if constexpr (std::is_trivially_destructible_v<T>) {
      word_ = 0;
      return std::move(value_);
    } else {
      struct result_guard {
        task_state& state;
        ~result_guard() {
          std::destroy_at(&state.value_);
          state.word_ = 0;
        }
      } guard{*this};
      return std::move(value_);
    }
  }

 private:
  static void destroy_failed(task_end& task) noexcept {
    auto& self = static_cast<task_state&>(task);
    self.coroutine_.destroy();
    self.fail();
    self.end_without_continuation();
  }
  friend task_promise_result<T>;

  template <class U>
  void emplace(U&& value) {
    if constexpr (std::is_reference_v<T>) {
      value_ = std::addressof(value);
    } else {
      if constexpr (needs_destructor<T>) {
        if ((word_ & has_value) != 0) [[unlikely]]
          drop_value();
      }
      std::construct_at(&value_, std::forward<U>(value));
      if constexpr (needs_destructor<T>) word_ |= has_value;
    }
  }
  // Drops the first result of a coroutine that returns a second one: a local's destructor threw
  // after the first co_return, and the handler returned again.
  [[gnu::cold, gnu::noinline]] void drop_value() noexcept {
    std::destroy_at(&value_);
    word_ &= ~has_value;
  }
  // Ends the coroutine of `end` with the exception being handled.
  [[gnu::cold, gnu::noinline]] static void fail(task_end& end) noexcept {
    if (std::is_void_v<T> && end.is_detached()) return fail_detached(end);
    static_cast<task_state&>(end).fail();
  }
  // Stores the exception being handled. Drops a result, because a local's destructor may throw
  // after co_return.
  void fail() noexcept {
    if ((word_ & has_value) != 0) drop_value();
    catch_into(&error_);
    word_ |= has_error;
  }
  void fail(std::exception_ptr error) noexcept {
    std::construct_at(&error_, std::move(error));
    word_ |= has_error;
  }

  [[noreturn, gnu::cold, gnu::noinline]] void rethrow() {
    word_ = 0;
    rethrow_and_clear(error_);
  }

  void take(task_state& other) noexcept {
    if (is_unawaited()) [[likely]] {
      coroutine_ = other.coroutine_;
    } else if (failed()) {
      std::construct_at(&error_, std::move(other.error_));
      std::destroy_at(&other.error_);
    } else if ((word_ & has_value) != 0) {
      std::construct_at(&value_, std::move(other.value_));
      std::destroy_at(&other.value_);
    } else {
      coroutine_ = handle();  // avoids a warning of GCC about an uninitialised member
    }
    other.word_ = 0;
  }
  void reset() noexcept {
    if (word_ != 0) [[unlikely]]
      clear();
  }
  [[gnu::noinline]] void clear() noexcept {
    if (failed()) {
      std::destroy_at(&error_);
    } else if ((word_ & has_value) != 0) {
      std::destroy_at(&value_);
    } else {
      coroutine_.destroy();
    }
    word_ = 0;
  }

  union {
    handle coroutine_;
    stored_result_t<T> value_;
    std::exception_ptr error_;
  };
};

/// Grants the rest of gyre access to a task's state.
struct task_access {
  template <class T>
  static task_state<T>& state(task<T>& object) noexcept {
    return object;
  }
  template <class T>
  static const task_state<T>& state(const task<T>& object) noexcept {
    return object;
  }
};

}  // namespace detail
}  // namespace gyre
