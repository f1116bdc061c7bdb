// SPDX-License-Identifier: Apache-2.0
// parallel_for, parallel_invoke, parallel_reduce: blocking fork-join algorithms on an executor.
//
//     gyre::parallel_for(pool, 0, image.height(), [&](int row) { sharpen(image, row); });
//     gyre::parallel_invoke(pool, [&] { sort(left); }, [&] { sort(right); });
//     double sum = gyre::parallel_reduce(pool, samples, 0.0, square, std::plus());
//
// The algorithms work on any executor. An executor that does not fork
// (executor::fork_queue_here()), such as an event loop or a pool with one shared queue, runs
// everything on one of its threads. A caller within a task of the executor does its share of the
// work. Any other caller blocks until threads of the executor have done it: do not call the
// algorithms on a loop for another executor, nor for a loop on its own thread while the loop does
// not run. A pool's worker that waits runs other tasks of its pool meanwhile: hold no lock that
// these tasks may take. A fork that no other worker takes costs some nanoseconds and allocates
// nothing, so calls nest to any depth.
//
// A strand or a loop whose operation waits deeper in the caller's stack cannot run anything: a call
// for it throws std::system_error (std::errc::resource_deadlock_would_occur).
//
// If a function throws, calls that have not begun may be skipped; the exception is thrown to the
// caller after the calls in progress have ended. Functions are not copied, but called on several
// threads at the same time.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/pool/detail/forked_operation.hpp>
#include <gyre/task/executor.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <iterator>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace gyre {

/// The settings of parallel_for() and parallel_reduce().
struct parallel_options {
  /// The number of elements that a thread processes before others may take some. 0: a 1024th of
  /// all, from 1 to 1024. Larger grains let the compiler vectorise bodies of some nanoseconds.
  std::size_t grain = 0;
};

namespace detail {

/// Throws std::system_error (std::errc::resource_deadlock_would_occur).
[[noreturn, gnu::cold]] void throw_executor_waits_below();

/// Runs `function` on a thread of `target` and waits for its end.
template <class F>
void run_on(executor& target, F& function) {
  if (target.runs_only_here()) [[unlikely]]
    throw_executor_waits_below();
  forked_call<F> call(function);
  target.post(call);
  call.join();
}

template <class Executor, class F>
void invoke_all(Executor&, F& last) {
  last();
}

template <class Executor, class F, class... Others>
void invoke_all(Executor& target, F& first, Others&... further_callables) {
  auto invoke_others = [&] { invoke_all(target, further_callables...); };
  forked_call<decltype(invoke_others)> fork(invoke_others);
  fork_queue* const queue = target.fork_queue_here();
  if (queue == nullptr || !queue->push(fork)) [[unlikely]] {
    auto invoke_in_turn = [&] {
      first();
      invoke_others();
    };
    auto fork_there = [&] { invoke_all(target, first, further_callables...); };
    return target.running_here() ? invoke_in_turn() : run_on(target, fork_there);
  }
  try {
    first();
  } catch (...) {
    if (!queue->take_back(fork)) fork.wait();
    throw;
  }
  if (queue->take_back(fork)) [[likely]] {
    invoke_others();
  } else {
    fork.join();
  }
}

/// A loop over [first, last) that threads divide among themselves. `Part` is the result of a piece
/// of the range: part(first, last) runs elements, Part(prototype) begins a piece, and
/// part.append(next) adds the result of the following piece.
///
/// Each thread offers the second half of its range while it runs the first half in steps, and
/// divides again as soon as the offer is taken. So there are few pieces if no other thread takes
/// any (Tzannes, Caragea, Barua and Vishkin, "Lazy binary-splitting", 2010).
template <class Executor, class Index, class Part>
class divided_loop {
 public:
  divided_loop(Executor& target, Index grain, const Part& prototype) noexcept
      : target_(target), grain_(grain), prototype_(prototype) {}

  /// Runs the whole loop. Throws the first exception of a piece.
  void run(Index first, Index last, Part& part) {
    auto divide = [&] { this->divide(first, last, part); };
    target_.running_here() ? divide() : run_on(target_, divide);
    if (error_) std::rethrow_exception(std::move(error_));
  }

 private:
  class piece final : public forked_operation {
   public:
    piece(divided_loop& loop, Index first, Index last) noexcept
        : forked_operation(&run), loop_(loop), first_(first), last_(last) {}

    /// The result of the piece, if another thread has run it.
    std::optional<Part> part;

   private:
    static void run(operation& self) noexcept {
      auto& own_piece = static_cast<piece&>(self);
      own_piece.begin();
      own_piece.loop_.guard([&] {
        own_piece.part.emplace(own_piece.loop_.prototype_);
        own_piece.loop_.divide(own_piece.first_, own_piece.last_, *own_piece.part);
      });
      own_piece.finish();
    }

    divided_loop& loop_;
    const Index first_;
    const Index last_;
  };

  void divide(Index first, Index last, Part& part) noexcept {
    fork_queue* const queue = target_.fork_queue_here();
    while (first != last && !failed()) {
      if (last - first <= grain_) return run_step(first, last, part);
      const auto middle = static_cast<Index>(first + (last - first) / 2);
      piece second(*this, middle, last);
      const bool is_forked = queue != nullptr && queue->push(second);
      while (first != middle && !second.is_taken() && !failed()) {
        const Index end_of_piece =
            middle - first > grain_ ? static_cast<Index>(first + grain_) : middle;
        run_step(first, end_of_piece, part);
        first = end_of_piece;
      }
      if (first != middle) divide(first, middle, part);
      if (is_forked && !queue->take_back(second)) {
        second.wait();
        if (!failed()) guard([&] { part.append(std::move(*second.part)); });
        return;
      }
      first = middle;
    }
  }
  void run_step(Index first, Index last, Part& part) noexcept {
    guard([&] { part(first, last); });
  }

  template <class F>
  void guard(F&& function) noexcept {
    try {
      function();
    } catch (...) {
      // relaxed: the ends of all pieces order error_ before it is read.
      if (!has_failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
    }
  }
  bool failed() const noexcept {
    return has_failed_.load(std::memory_order_relaxed);  // relaxed: the flag is a hint to end early
  }

  Executor& target_;
  const Index grain_;
  const Part& prototype_;
  atomic<bool> has_failed_{false};
  std::exception_ptr error_;
};

template <class Index>
Index grain_of(Index first, Index last, const parallel_options& options) noexcept {
  using count = std::make_unsigned_t<Index>;
  // The operands are converted first: narrow ones would be promoted to int, whose difference may be
  // negative.
  const std::size_t size = static_cast<count>(static_cast<count>(last) - static_cast<count>(first));
  const std::size_t grain =
      options.grain != 0 ? options.grain : std::clamp<std::size_t>(size / 1024, 1, 1024);
  return static_cast<Index>(std::min(grain, size));
}

/// The type of the index: the common type of both ends, or `First` if `Last` is not an integer.
template <class First, class Last>
struct loop_index : std::type_identity<First> {};
template <std::integral First, std::integral Last>
struct loop_index<First, Last> : std::common_type<First, Last> {};
template <class First, class Last>
using loop_index_t = typename loop_index<First, Last>::type;

/// Returns the beginning of a range as an Index.
template <class Index, class First>
Index first_index(First first) {
  if constexpr (std::signed_integral<First> && std::unsigned_integral<Index>) {
    if (first < 0) throw std::invalid_argument("gyre: a range from below zero to an unsigned end");
  }
  return static_cast<Index>(first);
}

/// Returns the end of a range as an Index; an end below zero makes the range empty.
template <class Index, class Last>
Index end_index(Last last) {
  if constexpr (std::signed_integral<Last> && std::unsigned_integral<Index>) {
    if (last < 0) return 0;
  }
  return static_cast<Index>(last);
}

/// A piece of parallel_for(), which has no result.
template <class Index, class Body>
struct for_part {
  Body& body;

  void operator()(Index first, Index last) const {
    for (Index i = first; i != last; ++i) std::invoke(body, i);
  }
  void append(for_part&&) const noexcept {}
};

/// A piece of parallel_reduce(): the values of its elements, combined in their order.
template <class Index, class T, class Transform, class Combine>
struct reduce_part {
  T value;
  Transform& transform;
  Combine& combine;

  void operator()(Index first, Index last) {
    T sum = std::move(value);  // a local copy can stay in a register
    for (Index i = first; i != last; ++i) {
      sum = std::invoke(combine, std::move(sum), std::invoke(transform, i));
    }
    value = std::move(sum);
  }
  void append(reduce_part&& part) {
    value = std::invoke(combine, std::move(value), std::move(part.value));
  }
};

}  // namespace detail

/// Calls each function once, on threads of the executor, and blocks until all have returned. Within
/// a task of the executor, the first function is called on the calling thread; other threads may
/// take the others at the same time. If several functions throw, the exception of the first of them
/// in the argument list is thrown.
///
/// Thread-safety: may be called on any thread.
/// Complexity: a fork costs some nanoseconds if no other thread takes it, and no allocation.
template <std::derived_from<executor> Executor, class... Functions>
  requires(sizeof...(Functions) > 0 && (std::invocable<Functions&> && ...))
void parallel_invoke(Executor& target, Functions&&... functions) {
  if constexpr (sizeof...(Functions) == 1) {
    auto invoke = [&] { detail::invoke_all(target, functions...); };
    target.running_here() ? invoke() : detail::run_on(target, invoke);
  } else {
    detail::invoke_all(target, functions...);
  }
}

/// Calls body(i) for each i in [first, last), in no particular order, and blocks until all calls
/// have returned. If several calls throw, one of the exceptions is thrown. The index has the common
/// type of `first` and `last`, which must be able to represent `last - first`.
///
/// Thread-safety: may be called on any thread.
/// Errors: std::invalid_argument if the index is unsigned and `first` is below zero.
template <std::derived_from<executor> Executor, std::integral First, class Last = First, class Body>
  requires std::convertible_to<Last, detail::loop_index_t<First, Last>> &&
           std::invocable<Body&, const detail::loop_index_t<First, Last>&>
void parallel_for(Executor& target, First first, Last last, Body&& body,
                  parallel_options options = {}) {
  using index = detail::loop_index_t<First, Last>;
  const index begin = detail::first_index<index>(first);
  const index end = detail::end_index<index>(std::move(last));
  if (begin >= end) return;
  using part = detail::for_part<index, std::remove_reference_t<Body>>;
  part whole{body};
  const part prototype = whole;
  detail::divided_loop division(target, detail::grain_of(begin, end, options), prototype);
  division.run(begin, end, whole);
}

/// Calls body(element) for each element of `range`, which several threads index at the same time.
template <std::derived_from<executor> Executor, std::ranges::random_access_range Range, class Body>
  requires std::ranges::sized_range<Range> &&
           std::invocable<Body&, std::ranges::range_reference_t<Range>>
void parallel_for(Executor& target, Range&& range, Body&& body, parallel_options options = {}) {
  const auto begin = std::ranges::begin(range);
  using index = std::iter_difference_t<std::remove_const_t<decltype(begin)>>;
  parallel_for(
      target, index{0}, static_cast<index>(std::ranges::size(range)),
      [&](index i) { std::invoke(body, begin[i]); }, options);
}

/// Combines transform(i) for each i in [first, last), in this order, to one value; the result is
/// `identity` if the range is empty. `combine` must be associative; it need not be commutative.
///
/// combine(identity, x) must equal x, because each part of the range that a thread takes begins
/// with a copy of `identity`. The division into parts varies from run to run, and with it the
/// rounding of floating-point sums. Otherwise like parallel_for().
template <std::derived_from<executor> Executor, std::integral First, class Last = First,
          std::copy_constructible T, class Transform, class Combine>
  requires std::convertible_to<Last, detail::loop_index_t<First, Last>> &&
           std::is_invocable_r_v<
               T, Combine&, T,
               std::invoke_result_t<Transform&, const detail::loop_index_t<First, Last>&>> &&
           std::is_invocable_r_v<T, Combine&, T, T>
[[nodiscard]] T parallel_reduce(Executor& target, First first, Last last, T identity,
                                Transform&& transform, Combine&& combine,
                                parallel_options options = {}) {
  using index = detail::loop_index_t<First, Last>;
  const index begin = detail::first_index<index>(first);
  const index end = detail::end_index<index>(std::move(last));
  if (begin >= end) return identity;
  using part = detail::reduce_part<index, T, std::remove_reference_t<Transform>,
                                   std::remove_reference_t<Combine>>;
  const part prototype{std::move(identity), transform, combine};
  part whole = prototype;
  detail::divided_loop division(target, detail::grain_of(begin, end, options), prototype);
  division.run(begin, end, whole);
  return std::move(whole.value);
}

/// Combines transform(element) for each element of `range`; see parallel_for() of a range.
template <std::derived_from<executor> Executor, std::ranges::random_access_range Range,
          std::copy_constructible T, class Transform, class Combine>
  requires std::ranges::sized_range<Range> &&
           std::invocable<Transform&, std::ranges::range_reference_t<Range>>
[[nodiscard]] T parallel_reduce(Executor& target, Range&& range, T identity, Transform&& transform,
                                Combine&& combine, parallel_options options = {}) {
  const auto begin = std::ranges::begin(range);
  using index = std::iter_difference_t<std::remove_const_t<decltype(begin)>>;
  return parallel_reduce(
      target, index{0}, static_cast<index>(std::ranges::size(range)), std::move(identity),
      [&](index i) -> decltype(auto) { return std::invoke(transform, begin[i]); }, combine,
      options);
}

}  // namespace gyre
