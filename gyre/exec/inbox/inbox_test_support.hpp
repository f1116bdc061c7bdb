// SPDX-License-Identifier: Apache-2.0
// Tasks for the tests of the inboxes, and functions that run them.
#pragma once

#include <gyre/exec/inbox/inbox.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gyre::inbox::suite {

inline constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

/// Runs at most `most` tasks; returns their number.
template <class Inbox>
std::size_t run(Inbox& inbox, std::size_t most = no_limit) {
  batch some(most);
  inbox.run(some);
  return some.ran();
}

/// Whether pending() counts tasks; boost's queue only knows whether it is empty.
template <class Inbox>
inline constexpr bool counts_pending = true;

template <class Inbox>
void expect_pending(const Inbox& inbox, std::size_t count) {
  EXPECT_EQ(inbox.pending(), counts_pending<Inbox> ? count : std::min<std::size_t>(count, 1));
}

inline std::vector<int> numbers_up_to(int end) {
  std::vector<int> numbers(static_cast<std::size_t>(end));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// Counts the callables that were run and those that were destroyed.
struct fates {
  std::atomic<int> run{0};
  std::atomic<int> destroyed{0};
};

/// Member of a callable that counts its end once, however often it is moved.
class witness {
 public:
  explicit witness(fates& told) noexcept : told_(&told) {}
  witness(witness&& other) noexcept : told_(std::exchange(other.told_, nullptr)) {}
  witness& operator=(witness&&) = delete;
  ~witness() {
    if (told_ != nullptr) ++told_->destroyed;
  }
  void ran() { ++told_->run; }

 private:
  fates* told_;
};

/// A callable of a given size that notices damage and wrong alignment.
template <std::size_t Bytes, std::size_t Alignment = alignof(void*)>
class alignas(Alignment) sized_task {
 public:
  explicit sized_task(fates& told) : witness_(told) { filling_.fill(0x5a); }
  void operator()() {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(this) % Alignment, 0U);
    EXPECT_TRUE(std::ranges::all_of(filling_, [](unsigned char each) { return each == 0x5a; }));
    witness_.ran();
  }

 private:
  witness witness_;
  std::array<unsigned char, Bytes - sizeof(witness)> filling_;
};

/// A task whose copies throw, unlike its moves.
struct uncopyable_task {
  uncopyable_task() = default;
  uncopyable_task(const uncopyable_task&) { throw std::runtime_error("no copy"); }
  uncopyable_task(uncopyable_task&&) noexcept {}
  void operator()() const { ADD_FAILURE() << "runs although it was never stored"; }
};

/// An uncopyable_task that is too large for the cells of an inbox.
struct large_uncopyable_task : uncopyable_task {
  std::array<char, 200> filling{};
};

/// A task whose move may throw, unlike its copy.
struct unmovable_task {
  explicit unmovable_task(int& ran) noexcept : runs(&ran) {}
  unmovable_task(const unmovable_task&) noexcept = default;
  unmovable_task(unmovable_task&& other) noexcept(false) : runs(other.runs) {}
  void operator()() const { ++*runs; }
  int* runs;
};

}  // namespace gyre::inbox::suite
