// SPDX-License-Identifier: Apache-2.0
// async_generator: a coroutine that yields a sequence and may await between its values.
//
//     gyre::async_generator<line> lines(tcp_stream& from);
//
//     auto incoming = lines(stream);
//     while (line* next = co_await incoming.next()) handle(*next);
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/detail/await_transform.hpp>
#include <gyre/task/detail/frame.hpp>
#include <gyre/task/detail/new_coroutine.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <coroutine>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

namespace gyre {

namespace detail {

template <class T>
class async_generator_promise;

}  // namespace detail

/// A coroutine that yields a sequence of values, and may await before each of them.
///
/// If `T` is an object type, it must be copyable to yield lvalues, which are copied, as the
/// consumer may move from an element. If `T` is an lvalue reference, the consumer receives a
/// reference to the yielded object. The coroutine runs only while next() is awaited, with the
/// consumer's stop token, task-local values and executor; resume_on() within the generator moves
/// the consumer as well.
///
/// Thread-safety: one thread at a time; one next() at a time.
/// Lifetime: an element lives until next() is awaited again. The generator must not be destroyed
/// while next() is awaited, unless the awaiting coroutine is destroyed with it.
/// Errors: next() throws an exception that leaves the coroutine; the sequence then ends.
/// Complexity: next() costs two jumps, no allocation. The frame comes from the slab, or from an
/// allocator passed after std::allocator_arg.
template <class T>
class [[nodiscard]] async_generator {
  static_assert(!std::is_rvalue_reference_v<T> && !std::is_void_v<T>,
                "an async_generator yields a value or an lvalue reference");

 public:
  struct promise_type : detail::async_generator_promise<T> {
    async_generator get_return_object() noexcept {
      return async_generator(detail::handle_of_new<detail::async_generator_promise<T>>(*this));
    }
  };
  using value_type = std::remove_cvref_t<T>;

 private:
  using promise = detail::async_generator_promise<T>;
  using handle = typename promise::handle;

  class next_awaiter {
   public:
    explicit next_awaiter(handle coroutine) noexcept : coroutine_(coroutine) {}

    static constexpr bool executor_affine = true;
    bool await_ready() const noexcept { return !coroutine_ || coroutine_.done(); }
    template <detail::has_context Promise>
    GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
        std::coroutine_handle<Promise> consumer) noexcept {
      return coroutine_.promise().advance_for(consumer);
    }
    std::remove_reference_t<T>* await_resume() const {
      return coroutine_ ? coroutine_.promise().take() : nullptr;
    }

   private:
    handle coroutine_;
  };

 public:
  /// Makes a generator of an empty sequence.
  async_generator() noexcept = default;
  async_generator(async_generator&& other) noexcept
      : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  async_generator& operator=(async_generator other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~async_generator() {
    if (coroutine_) coroutine_.destroy();
  }

  /// Awaited, returns a pointer to the next element; null at the end of the sequence and after it.
  [[nodiscard]] auto next() noexcept { return next_awaiter(coroutine_); }

 private:
  explicit async_generator(handle coroutine) noexcept : coroutine_(coroutine) {}

  handle coroutine_;
};

namespace detail {

/// The promise of an async_generator<T>. It has the consumer's context while next() is awaited.
template <class T>
class async_generator_promise : public awaiting_promise, public slab_frame {
 public:
  using element = std::remove_reference_t<T>;
  using handle = std::coroutine_handle<async_generator_promise>;

  static constexpr std::suspend_always initial_suspend() noexcept { return {}; }
  static constexpr auto final_suspend() noexcept { return back_to_consumer{}; }
  void return_void() noexcept { element_ = nullptr; }
  void unhandled_exception() noexcept {
    element_ = nullptr;
    error_ = std::current_exception();
  }

  auto yield_value(element& value) noexcept
    requires std::is_lvalue_reference_v<T>
  {
    element_ = std::addressof(value);
    return back_to_consumer{};
  }
  // The consumer may move from the element, so an object that the generator keeps is copied.
  auto yield_value(element&& value) noexcept
    requires(!std::is_lvalue_reference_v<T>)
  {
    element_ = std::addressof(value);
    return back_to_consumer{};
  }
  auto yield_value(const element& value)
    requires(!std::is_lvalue_reference_v<T> && std::copy_constructible<element>)
  {
    return copy_for_consumer{{}, value};
  }

  /// Returns the transfer to the generator, which runs to its next element and then resumes
  /// `consumer`.
  template <has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> advance_for(
      std::coroutine_handle<Promise> consumer) noexcept {
    consumer_ = consumer;
    context = &context_of(consumer);
    this->trace.awaited_by.set(promise_of(consumer));
    return transfer_to(handle::from_promise(*this));
  }
  /// Returns the element, or null at the end. Throws the exception that left the coroutine.
  element* take() {
    if (error_) [[unlikely]]
      rethrow();
    return element_;
  }

 private:
  struct back_to_consumer {
    static constexpr bool await_ready() noexcept { return false; }
    template <std::derived_from<async_generator_promise> Promise>
    GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
        std::coroutine_handle<Promise> self) const noexcept {
      async_generator_promise& promise = self.promise();
      promise.context->trace.innermost.set(promise.trace.awaited_by.get());
      return transfer_to(promise.consumer_);
    }
    static constexpr void await_resume() noexcept {}
  };

  struct copy_for_consumer : back_to_consumer {
    element copy;

    template <std::derived_from<async_generator_promise> Promise>
    GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
        std::coroutine_handle<Promise> self) noexcept {
      static_cast<async_generator_promise&>(self.promise()).element_ = std::addressof(copy);
      return back_to_consumer::await_suspend(self);
    }
  };

  [[noreturn, gnu::cold, gnu::noinline]] void rethrow() {
    std::rethrow_exception(std::exchange(error_, nullptr));
  }

  std::coroutine_handle<> consumer_;
  element* element_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace detail
}  // namespace gyre
