// SPDX-License-Identifier: Apache-2.0
// file_routine: an operation on a file as a coroutine, which awaits system calls.
//
//     file_routine<std::uint64_t> size_of(routine_memory&, const file_arguments& arguments) {
//       struct ::statx status;
//       const result outcome = co_await file_command::status(arguments.fd, status);
//       if (!outcome) co_return failure_of(outcome);
//       co_return status.stx_size;
//     }
//
// A routine runs where its calls are made: on the loop's thread, where it waits for the kernel, or
// on a thread of a pool, from its beginning to its end.
#pragma once

#include <gyre/base/slab.hpp>
#include <gyre/io/detail/file_steps.hpp>

#include <fcntl.h>

#include <array>
#include <coroutine>
#include <cstddef>
#include <new>
#include <span>
#include <string>
#include <utility>

namespace gyre::io::detail {

struct file_arguments;

/// Memory for the frame of one routine, so that the operation allocates nothing. A larger frame, as
/// in builds without optimisation, is allocated.
class routine_memory {
 public:
  void* allocate(std::size_t frame) {
    return frame <= bytes_.size() ? bytes_.data() : slab_allocate(frame);
  }
  static void deallocate(void* memory, std::size_t frame) noexcept {
    if (frame > size) slab_deallocate(memory, frame);
  }

 private:
  static constexpr std::size_t size = 512;
  alignas(std::max_align_t) std::array<std::byte, size> bytes_;
};

/// A coroutine that returns an outcome. Its first parameter is the memory for its frame.
///
/// A routine may throw std::bad_alloc, which becomes ENOMEM, and nothing else.
template <class T>
class [[nodiscard]] file_routine {
 public:
  class promise_type {
   public:
    // The function is not a template, because GCC 12 would take operator delete for a mismatch.
    static void* operator new(std::size_t frame, routine_memory& memory, const file_arguments&) {
      return memory.allocate(frame);
    }
    static void operator delete(void* memory, std::size_t frame) noexcept {
      routine_memory::deallocate(memory, frame);
    }

    file_routine get_return_object() noexcept {
      return file_routine(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    static std::suspend_always initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    auto await_transform(const file_command& command) noexcept {
      next_ = command;
      return call{*this};
    }
    void return_value(outcome_of<T> outcome) noexcept { outcome_ = std::move(outcome); }
    void unhandled_exception() noexcept { outcome_ = failure_of(ENOMEM); }

   private:
    friend file_routine;
    struct call {
      promise_type& routine;
      static constexpr bool await_ready() noexcept { return false; }
      static constexpr void await_suspend(std::coroutine_handle<>) noexcept {}
      result await_resume() const noexcept { return routine.last_; }
    };

    file_steps::next next_;
    result last_ = result::of(0);
    outcome_of<T> outcome_ = failure_of(ECANCELED);
  };

  file_routine() noexcept = default;
  file_routine(file_routine&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}
  file_routine& operator=(file_routine&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~file_routine() {
    if (coroutine_) coroutine_.destroy();
  }

  /// Runs the routine to its next call, and returns that call. `outcome`: the outcome of the
  /// previous call.
  file_steps::next resume(result outcome) noexcept {
    promise_type& promise = coroutine_.promise();
    promise.next_.reset();
    promise.last_ = outcome;
    coroutine_.resume();
    return promise.next_;
  }
  /// Returns the outcome, once, after the routine has ended.
  outcome_of<T> outcome() noexcept { return std::move(coroutine_.promise().outcome_); }

 private:
  explicit file_routine(std::coroutine_handle<promise_type> coroutine) noexcept
      : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

/// The arguments of routines.
struct file_arguments {
  /// The path of the file to open; not used unless `fd` is AT_FDCWD.
  std::string path = {};
  int fd = AT_FDCWD;
  std::span<const std::byte> bytes = {};
  std::size_t limit = 0;
};

/// Steps that are the calls of a routine.
template <class T>
class routine_steps final : public file_steps {
 public:
  using value_type = T;
  using function = file_routine<T> (*)(routine_memory&, const file_arguments&);

  routine_steps(function routine, file_arguments arguments) noexcept
      : function_(routine), arguments_(std::move(arguments)) {}
  // Steps move only before they begin.
  routine_steps(routine_steps&& other) noexcept
      : routine_steps(other.function_, std::move(other.arguments_)) {}
  routine_steps& operator=(routine_steps&&) = delete;
  ~routine_steps() = default;

  next begin() noexcept override {
    // A path with a zero byte would be taken for a shorter one.
    if (arguments_.path.contains('\0')) return fail(EINVAL);
    try {
      routine_ = function_(memory_, arguments_);
    } catch (const std::bad_alloc&) {
      return fail(ENOMEM);
    }
    return routine_.resume(result::of(0));
  }
  next advance(result outcome) noexcept override { return routine_.resume(outcome); }
  outcome_of<T> outcome() noexcept {
    if (has_failed()) return failure();
    return routine_.outcome();
  }
  std::string hint() const {
    return arguments_.fd == AT_FDCWD ? ' ' + path_in_message(arguments_.path) : "";
  }

 private:
  function function_;
  file_arguments arguments_;
  routine_memory memory_;
  file_routine<T> routine_;
};

}  // namespace gyre::io::detail
