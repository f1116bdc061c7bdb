// SPDX-License-Identifier: Apache-2.0
// Coroutines that await a million times, in ways that could grow the stack. Two files of one
// program, compiled with different options, include this header.
#pragma once

#include <gyre/task/async_generator.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/task.hpp>

namespace depth {

inline constexpr long million = 1'000'000;

struct check {
  const char* name;
  gyre::task<long> (*run)();
};

// The program has one copy, from the file that the linker chooses.
inline gyre::task<long> shared_by_both(long value) { co_return value; }
inline gyre::task<long> shared_link(long value) {
  const long result = co_await shared_by_both(value);
  co_return result;
}

// Each file has its own copy.
template <class File>
struct coroutines {
  static gyre::task<long> loop() {
    long sum = 0;
    for (long i = 0; i < million; ++i) sum += co_await shared_link(1);
    co_return sum;
  }

  // NOLINTNEXTLINE(misc-no-recursion): what is tested.
  static gyre::task<long> link(long depth) {
    if (depth == 0) {
      co_await gyre::yield();
      co_return 0;
    }
    const long below = co_await link(depth - 1);
    co_return below + 1;
  }
  static gyre::task<long> recursion() { return link(million); }

  static gyre::async_generator<long> numbers() {
    for (long i = 0; i < million; ++i) co_yield co_await shared_by_both(i);
  }
  static gyre::task<long> elements() {
    auto all = numbers();
    long count = 0;
    while (const long* next = co_await all.next()) count += *next >= 0 ? 1 : 0;
    co_return count;
  }

  static constexpr check all[]{
      {"awaits in a loop", loop}, {"recursion", recursion}, {"an async_generator", elements}};
};

/// The checks of the file that is compiled with -foptimize-sibling-calls and its definition.
extern const check* const with_option_begin;
extern const check* const with_option_end;
gyre::task<long> link_with_option(long value);

}  // namespace depth
