// SPDX-License-Identifier: Apache-2.0
//
// An exhaustive checker for lock-free code: check() runs a small scenario again and again, once for
// every schedule and every value that the C++ memory model lets a load return, and reports the
// first schedule that fails as a readable, replayable trace.
//
//   EXPECT_TRUE(model::check({}, [] {
//     model::atomic<int> ready{0};
//     int data = 0;
//     model::thread writer([&] { data = 42; ready.store(1, std::memory_order_release); });
//     if (ready.load(std::memory_order_acquire) == 1) assert_that(data == 42, "data arrived");
//     writer.join();
//   }));
//
// Errors found: failed assertions; data races of plain accesses (the code under test is compiled
// with ThreadSanitizer's instrumentation, whose calls end here, see hooks.cpp); use after free,
// leaks and heap overruns; deadlocks, hence lost wake-ups; livelocks; crashes.
//
// Code under test must be deterministic except for its schedule. It may use thread_local and static
// variables (each schedule starts with fresh ones), std::mutex, std::atomic, new and mmap.
//
// Sources: Musuvathi and Qadeer, "Iterative context bounding for systematic testing of
// multithreaded programs", 2007 (bounding preemptions, fewest first, and pruning by equivalent
// histories, which replaces Flanagan and Godefroid's partial-order reduction of 2005
// because it stays exact under a bound); Norris and Demsky, "CDSChecker", 2013 (memory model);
// Tokio's loom (the shape of the interface). The memory model is described in memory.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iosfwd>
#include <memory>
#include <source_location>
#include <string>
#include <type_traits>

namespace gyre::model {

__extension__ using word = unsigned __int128;  // the bytes of any atomic's value

inline constexpr unsigned unlimited = ~0U;

struct options {
  /// The most preemptions of a schedule: switches away from a thread that could go on. Most defects
  /// need one or two.
  unsigned preemptions = 3;
  /// The most loads of a schedule that may return a value other than the newest.
  unsigned stale_reads = unlimited;
  /// The most spurious failures of compare_exchange_weak in a schedule.
  unsigned spurious_failures = 1;
  /// A schedule with more operations than this is reported as a livelock.
  std::size_t max_steps = 5000;
  /// Gives up, and fails, after this many schedules.
  std::size_t max_schedules = 20'000'000;
  /// Whether memory still allocated when all threads have ended is a failure.
  bool leaks_fail = true;
  /// Whether to run all equivalent schedules: for tests of the checker.
  bool keep_equivalent = false;
  /// Runs only this schedule: the `trace` of an earlier result with the same bounds. The
  /// environment variable GYRE_MODEL_REPLAY does the same for every check() of the program.
  std::string replay = {};
};

/// The result of check(). True if no schedule failed and all were run.
struct result {
  std::string failure;        ///< empty if no schedule failed
  std::string trace;          ///< the failing schedule, for options::replay
  std::string story;          ///< the failing schedule, for people
  std::size_t schedules = 0;  ///< run to their end
  std::size_t pruned = 0;     ///< abandoned because an equivalent one had been run
  std::size_t steps = 0;      ///< operations in all schedules
  double seconds = 0;
  unsigned preemptions = 0;  ///< the bound of the last search
  bool finished = false;     ///< all schedules within the bounds were run
  bool exhaustive = false;   ///< finished, and the bound on preemptions excluded none

  explicit operator bool() const { return finished && failure.empty(); }
};

std::ostream& operator<<(std::ostream& out, const result& shown);

/// Runs `body`, which is the first thread, under every schedule. Not reentrant.
result check(const options& bounds, const std::function<void()>& body);

/// Fails the schedule unless `condition` holds. From model threads.
void assert_that(bool condition, const char* claim,
                 std::source_location where = std::source_location::current());

/// Sets the name of `atomic` in the stories of failures. From model threads.
void name(const volatile void* atomic, const char* name);

/// Calls `function` as if no check were running, so that its stores outlive this schedule.
/// `function` must not use the model. From model threads.
void outside(const std::function<void()>& function);

/// Lets the other threads run first, as a spinning thread must, and makes the newest values visible
/// to the calling thread.
void yield(std::source_location where = std::source_location::current());

/// std::atomic_thread_fence, gyre::asymmetric_light_fence and gyre::asymmetric_heavy_fence.
void thread_fence(std::memory_order order,
                  std::source_location where = std::source_location::current());
void asymmetric_light_fence(std::source_location where = std::source_location::current());
void asymmetric_heavy_fence(std::source_location where = std::source_location::current());

/// A thread of the scenario; its destructor joins it. At most seven besides the first.
class thread {
 public:
  explicit thread(std::function<void()> body,
                  std::source_location where = std::source_location::current());
  thread(const thread&) = delete;
  thread& operator=(const thread&) = delete;
  ~thread();
  void join(std::source_location where = std::source_location::current());

 private:
  unsigned id_;
  bool joined_ = false;
};

/// An event to wait for, like an eventfd: wait() returns once wake() was called since the last
/// wait() returned. Everything before wake() happens before the return.
class event {
 public:
  event() = default;
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  void wake(std::source_location where = std::source_location::current());
  void wait(std::source_location where = std::source_location::current());
  /// Calls of wake() since the last wait() returned.
  unsigned pending() const { return pending_; }

 private:
  unsigned pending_ = 0;
};

namespace detail {

using std::memory_order;
using where = const std::source_location&;
enum class update { exchange, add, subtract, bit_and, bit_or, bit_xor };

void construct(const volatile void* atomic, std::size_t size, word value);
void destroy(const volatile void* atomic) noexcept;
word load(const volatile void* atomic, std::size_t size, memory_order order, where);
void store(volatile void* atomic, std::size_t size, word value, memory_order order, where);
word apply(volatile void* atomic, std::size_t size, update how, word operand, memory_order order,
           where);
bool compare_exchange(volatile void* atomic, std::size_t size, word& expected, word desired,
                      bool weak, memory_order success, memory_order failure, where);

constexpr memory_order without_release(memory_order order) {
  if (order == std::memory_order_acq_rel) return std::memory_order_acquire;
  return order == std::memory_order_release ? std::memory_order_relaxed : order;
}

template <typename T>
word to_word(const T& value) {
  word result = 0;
  std::memcpy(&result, std::addressof(value), sizeof(T));
  return result;
}

template <typename T>
T from_word(word value) {
  T result;
  std::memcpy(static_cast<void*>(std::addressof(result)), &value, sizeof(T));
  return result;
}

}  // namespace detail

/// std::atomic in the model. Its memory holds only the initial value; the current value depends on
/// the thread that reads.
template <typename T>
class atomic {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(word));
  using order = std::memory_order;
  using where = std::source_location;
  static constexpr order strongest = std::memory_order_seq_cst;
  using difference =
      std::conditional_t<std::is_pointer_v<T>, std::ptrdiff_t,
                         std::conditional_t<std::is_integral_v<T>, T, std::ptrdiff_t>>;

 public:
  using value_type = T;
  static constexpr bool is_always_lock_free = true;

  constexpr atomic() : atomic(T{}) {}
  constexpr atomic(T value) : initial_(value) {  // NOLINT(google-explicit-constructor): as std
    if (!std::is_constant_evaluated()) {
      detail::construct(this, sizeof(T), detail::to_word(value));
    }
  }
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;
  constexpr ~atomic() {
    if (!std::is_constant_evaluated()) detail::destroy(this);
  }

  bool is_lock_free() const { return true; }

  T load(order how = strongest, where at = where::current()) const {
    return detail::from_word<T>(detail::load(this, sizeof(T), how, at));
  }
  void store(T value, order how = strongest, where at = where::current()) {
    detail::store(this, sizeof(T), detail::to_word(value), how, at);
  }
  T exchange(T value, order how = strongest, where at = where::current()) {
    return apply(detail::update::exchange, detail::to_word(value), how, at);
  }

  bool compare_exchange_weak(T& expected, T desired, order success, order failure,
                             where at = where::current()) {
    return compare_exchange(expected, desired, true, success, failure, at);
  }
  bool compare_exchange_weak(T& expected, T desired, order how = strongest,
                             where at = where::current()) {
    return compare_exchange(expected, desired, true, how, detail::without_release(how), at);
  }
  bool compare_exchange_strong(T& expected, T desired, order success, order failure,
                               where at = where::current()) {
    return compare_exchange(expected, desired, false, success, failure, at);
  }
  bool compare_exchange_strong(T& expected, T desired, order how = strongest,
                               where at = where::current()) {
    return compare_exchange(expected, desired, false, how, detail::without_release(how), at);
  }

  T fetch_add(difference by, order how = strongest, where at = where::current()) {
    return apply(detail::update::add, scaled(by), how, at);
  }
  T fetch_sub(difference by, order how = strongest, where at = where::current()) {
    return apply(detail::update::subtract, scaled(by), how, at);
  }
  T fetch_and(T by, order how = strongest, where at = where::current())
    requires std::is_integral_v<T>
  {
    return apply(detail::update::bit_and, detail::to_word(by), how, at);
  }
  T fetch_or(T by, order how = strongest, where at = where::current())
    requires std::is_integral_v<T>
  {
    return apply(detail::update::bit_or, detail::to_word(by), how, at);
  }
  T fetch_xor(T by, order how = strongest, where at = where::current())
    requires std::is_integral_v<T>
  {
    return apply(detail::update::bit_xor, detail::to_word(by), how, at);
  }

  operator T() const { return load(); }  // NOLINT(google-explicit-constructor): as std
  T operator=(T value) {                 // NOLINT: returns a value, as std
    store(value);
    return value;
  }
  T operator++(int) { return fetch_add(1); }
  T operator--(int) { return fetch_sub(1); }
  T operator++() { return static_cast<T>(fetch_add(1) + 1); }
  T operator--() { return static_cast<T>(fetch_sub(1) - 1); }
  T operator+=(difference by) { return static_cast<T>(fetch_add(by) + by); }
  T operator-=(difference by) { return static_cast<T>(fetch_sub(by) - by); }

 private:
  static word scaled(difference by) {
    if constexpr (std::is_pointer_v<T>) {
      by *= static_cast<difference>(sizeof(std::remove_pointer_t<T>));
    }
    return detail::to_word(by);
  }
  T apply(detail::update update, word operand, order how, where at) {
    return detail::from_word<T>(detail::apply(this, sizeof(T), update, operand, how, at));
  }
  bool compare_exchange(T& expected, T desired, bool weak, order success, order failure, where at) {
    word seen = detail::to_word(expected);
    const bool exchanged = detail::compare_exchange(this, sizeof(T), seen, detail::to_word(desired),
                                                    weak, success, failure, at);
    if (!exchanged) expected = detail::from_word<T>(seen);
    return exchanged;
  }

  alignas(sizeof(T) <= 8 ? sizeof(T) : 16) T initial_;
};

}  // namespace gyre::model
