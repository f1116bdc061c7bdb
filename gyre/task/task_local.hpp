// SPDX-License-Identifier: Apache-2.0
// task_local: a value that is bound for the duration of an await, and visible in all coroutines
// below that await.
//
//     const gyre::task_local<std::string> request_id;
//
//     gyre::task<> serve(request r) { co_await request_id.with(r.id, answer(r)); }
//
//     gyre::task<> log(std::string_view text) {  // anywhere below answer()
//       const std::string& id = co_await request_id.get();
//       std::clog << id << ' ' << text << '\n';
//     }
#pragma once

#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/schedule.hpp>

#include <concepts>
#include <coroutine>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace gyre {
namespace detail {

/// A bound value: its key, and the enclosing binding.
struct local_binding {
  const void* key;
  const local_binding* outer = nullptr;
};
template <class T>
struct local_value;
template <class T, awaitable Awaitable>
class bound_awaiter;

}  // namespace detail

/// A key for values of type T, each bound for the duration of an await. The coroutines below that
/// await, including children of when_all() and of scopes, see the innermost value. Coroutines that
/// spawn() starts, and the work of a shared_task, do not.
///
/// Thread-safety: may be used on any thread. Children on other threads share the value.
/// Lifetime: a key is identified by its address and must outlive its uses: make it a constant at
/// namespace scope.
/// Complexity: binding allocates nothing; a lookup is O(values bound above).
template <class T>
class task_local {
  static_assert(std::is_object_v<T> && !std::is_const_v<T>,
                "a task_local holds an object: use a pointer for a reference, and no const");

 public:
  /// Makes a key whose value is T() where no value is bound.
  constexpr task_local()
    requires std::default_initializable<T>
      : default_value_() {}
  /// Makes a key whose value is `otherwise` where no value is bound.
  constexpr explicit task_local(T default_value) : default_value_(std::move(default_value)) {}
  task_local& operator=(task_local&&) = delete;

  /// Awaits `object` with `value` bound to the key. Rvalues are moved in; an lvalue must outlive
  /// the await.
  template <awaitable Awaitable>
  [[nodiscard]] auto with(detail::awaited_value<T> value, Awaitable&& object) const {
    return detail::bound_awaiter<T, Awaitable>(this, static_cast<T&&>(std::move(value)),
                                               std::forward<Awaitable>(object));
  }
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  std::suspend_never with(detail::awaited_value<T> value,
                          detail::misused_awaitable explained) const;

  /// Awaited, returns a `const T&` to the bound value, or to the key's default value, without
  /// waiting. A bound value exists until the end of its await.
  [[nodiscard]] auto get() const noexcept {
    return detail::context_awaiter([this](const task_context& context) noexcept -> const T& {
      const T* const value_in_context = bound_in(context);
      return value_in_context != nullptr ? *value_in_context : default_value_;
    });
  }
  /// Awaited, returns a pointer to the bound value, or null, without waiting.
  [[nodiscard]] auto find() const noexcept {
    return detail::context_awaiter(
        [this](const task_context& context) noexcept { return bound_in(context); });
  }

 private:
  const T* bound_in(const task_context& context) const noexcept {
    for (auto* binding = context.locals; binding != nullptr; binding = binding->outer) {
      if (binding->key == this) return &static_cast<const detail::local_value<T>*>(binding)->value;
    }
    return nullptr;
  }

  T default_value_;
};

namespace detail {

template <class T>
struct local_value : local_binding {
  T value;
};

/// An awaiter that awaits `Awaitable` with a value bound. All code that runs in this context
/// meanwhile is below the await, so the context may be changed in place.
template <class T, awaitable Awaitable>
class bound_awaiter {
  using awaiter_type = decltype(awaiter_of(std::declval<Awaitable>()));

 public:
  static constexpr bool executor_affine = resumes_on_executor<awaiter_type>;

  bound_awaiter(const void* key, T value, Awaitable&& awaitable)
      : binding_{{key}, std::move(value)}, awaitable_(std::forward<Awaitable>(awaitable)) {}
  bound_awaiter(bound_awaiter&& other) noexcept(std::is_nothrow_move_constructible_v<T> &&
                                                std::is_nothrow_move_constructible_v<Awaitable>)
      : binding_(std::move(other.binding_)),
        awaitable_(std::forward<Awaitable>(other.awaitable_)) {}
  ~bound_awaiter() {
    if (is_begun_) std::destroy_at(&awaiter_);
  }

  // The await is never ready, because the value can be bound only when the coroutine is known.
  static constexpr bool await_ready() noexcept { return false; }

  template <has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> coroutine) {
    context_ = &context_of(coroutine);
    binding_.outer = context_->locals;
    context_->locals = &binding_;
    try {
      // The awaiter is constructed in place, because it may be an object that cannot be moved, or a
      // reference.
      ::new (static_cast<void*>(std::addressof(awaiter_)))
          holder{awaiter_of(std::forward<Awaitable>(awaitable_))};
      is_begun_ = true;
      return begin(coroutine);
    } catch (...) {
      unbind();
      throw;
    }
  }
  await_result_t<Awaitable> await_resume() {
    const struct unbinding {
      bound_awaiter* self;
      ~unbinding() { self->unbind(); }
    } unbind_guard{this};
    return awaiter_.object.await_resume();
  }

 private:
  struct holder {
    awaiter_type object;
  };

  template <class Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> begin(std::coroutine_handle<Promise> coroutine) {
    if (awaiter_.object.await_ready()) return transfer_to(coroutine);
    using returned = decltype(awaiter_.object.await_suspend(coroutine));
    if constexpr (std::is_void_v<returned>) {
      awaiter_.object.await_suspend(coroutine);
      return std::noop_coroutine();
    } else if constexpr (std::same_as<returned, bool>) {
      if (!awaiter_.object.await_suspend(coroutine)) return transfer_to(coroutine);
      return std::noop_coroutine();
    } else {
      return awaiter_.object.await_suspend(coroutine);
    }
  }
  void unbind() noexcept { context_->locals = binding_.outer; }

  local_value<T> binding_;
  task_context* context_ = nullptr;
  bool is_begun_ = false;
  Awaitable awaitable_;
  union {
    holder awaiter_;
  };
};

}  // namespace detail
}  // namespace gyre
