// SPDX-License-Identifier: Apache-2.0
// backtrace: the data that contexts, promises and awaiters hold for async_backtrace and for the
// deadlock report of sync_wait(). Empty where backtraces are off (async_backtrace.hpp).
#pragma once

#include <gyre/task/detail/build_options.hpp>

#include <concepts>
#include <coroutine>
#include <optional>
#include <source_location>
#include <type_traits>

namespace gyre {

class executor;
struct task_context;

namespace detail {

// ABI tags: an object file refers to the function of the configuration it was compiled with, and
// the library defines only the function of its own configuration. So a program that mixes the two
// layouts does not link.
#if GYRE_ASYNC_BACKTRACE
inline constexpr bool records_backtraces = true;
#define GYRE_BACKTRACE_TAG library_built_with_gyre_async_backtrace_1
void GYRE_BACKTRACE_TAG() noexcept;
[[gnu::used, gnu::retain]] inline constexpr auto backtraces_on = &GYRE_BACKTRACE_TAG;
#else
inline constexpr bool records_backtraces = false;
#define GYRE_BACKTRACE_TAG library_built_with_gyre_async_backtrace_0
void GYRE_BACKTRACE_TAG() noexcept;
[[gnu::used, gnu::retain]] inline constexpr auto backtraces_off = &GYRE_BACKTRACE_TAG;
#endif

struct promise_base;
class task_end;
template <bool IsListed>
class basic_child_set;
using child_set = basic_child_set<records_backtraces>;

/// A field that only backtraces read; empty where they are off. Declared as a
/// `[[no_unique_address]]` member. Two such members of one object need different types to share an
/// address.
template <class T, bool IsRecorded = records_backtraces>
class traced_field {
 public:
  const T& get() const noexcept { return value_; }
  void set(const T& value) noexcept { value_ = value; }

 private:
  T value_{};
};

template <class T>
class traced_field<T, false> {
 public:
  static constexpr T get() noexcept { return T{}; }
  static constexpr void set(const T&) noexcept {}
};

/// An object that only backtraces need, constructed later than its holder.
template <class T, bool IsRecorded = records_backtraces>
class traced_optional : public std::optional<T> {};

template <class T>
class traced_optional<T, false> {
 public:
  template <class... Arguments>
  static constexpr void emplace(Arguments&&...) noexcept {}
  static constexpr void reset() noexcept {}
};

/// Returns the promise of a coroutine of gyre; null for a coroutine of another library.
template <class Promise>
promise_base* promise_of(std::coroutine_handle<Promise> coroutine) noexcept {
  if constexpr (std::derived_from<Promise, promise_base>) {
    return &coroutine.promise();
  } else {
    return nullptr;
  }
}

/// The data of a task_context that backtraces read.
struct context_trace {
  /// Destroys the coroutine of `outermost`, which then ends with the exception that is being
  /// handled. Called within an exception handler.
  using destroy_function = void (*)(task_end& outermost) noexcept;

  /// The coroutine of this context that runs or waits: the last one in the chain of awaits.
  [[no_unique_address]] traced_field<promise_base*> innermost;
  /// The context that waits for the end of this context.
  [[no_unique_address]] traced_field<const task_context*> parent;
  /// The coroutine of `parent` that awaits the task of this context.
  [[no_unique_address]] traced_field<const promise_base*> awaited_by;
  [[no_unique_address]] traced_field<const char*> name;
  /// The concurrent children of the context's coroutines, the newest set first.
  [[no_unique_address]] traced_field<child_set*> child_sets;
  /// The task of the context's outermost coroutine, and the function that destroys that coroutine.
  [[no_unique_address]] traced_field<task_end*> outermost;
  [[no_unique_address]] traced_field<destroy_function> destroy;
  /// An executor, other than the context's own, whose queue may hold the operation that ends the
  /// wait.
  [[no_unique_address]] traced_field<const executor*> holder;

  /// Clears the trace for a child of `context`.
  void fork(const task_context& context) noexcept {
    innermost.set(nullptr);
    parent.set(&context);
    child_sets.set(nullptr);
    holder.set(nullptr);
  }
};

/// The data of a promise that backtraces read: the coroutine that awaits the promise's coroutine,
/// and the await in which the promise's coroutine is suspended.
struct promise_trace {
  [[no_unique_address]] traced_field<promise_base*> awaited_by;
  [[no_unique_address]] traced_field<std::source_location> place;
};

static_assert(records_backtraces ||
              (std::is_empty_v<context_trace> && std::is_empty_v<promise_trace>));

}  // namespace detail
}  // namespace gyre
