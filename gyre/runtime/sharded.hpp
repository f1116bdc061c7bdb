// SPDX-License-Identifier: Apache-2.0
// sharded: one instance of a class on each loop of a loop_pool, like sharded in Seastar.
//
//     gyre::sharded<session_table> tables(loops);
//     co_await tables.start(std::size_t{1024});  // session_table(1024) on each loop
//     auto insert = [&](session_table& table) { table.insert(user_id, session); };
//     co_await tables.call(user_id, insert);
//     std::size_t sessions = co_await tables.map_reduce(&session_table::size, std::size_t{0});
//     co_await tables.stop();
#pragma once

#include <gyre/base/cache_line.hpp>
#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <atomic>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre {
namespace detail {

/// Returns the hash of a key. Strings of different types with equal characters have equal hashes.
template <class Key>
std::uint64_t shard_hash(const Key& key) {
  if constexpr (std::convertible_to<const Key&, std::string_view>) {
    return std::hash<std::string_view>()(key);
  } else {
    return std::hash<Key>()(key);
  }
}

/// The type of the result of a call with an instance, awaited if it is awaitable.
template <class F, class T>
struct shard_call_result {
  using type = std::invoke_result_t<F&, T&>;
};
template <class F, class T>
  requires awaitable<std::invoke_result_t<F&, T&>>
struct shard_call_result<F, T> {
  using type = task_result_t<std::invoke_result_t<F&, T&>>;
};

/// A class with an awaitable stop().
template <class T>
concept stops_asynchronously = requires(T& instance) {
  { instance.stop() } -> awaitable;
};

}  // namespace detail

/// One instance of T for each loop of a pool, constructed, used and destroyed only on that loop's
/// thread: T needs no lock. Functions are sent to the data, and results are sent back.
///
/// A function is called with a T& on the instance's loop. It may be or return an awaitable, which
/// runs on that loop, interleaved with other calls. Its result, or exception, is returned on the
/// executor of the awaiting coroutine. Results are values: a reference to a loop's data must not
/// leave the loop.
///
/// With GCC 12, arguments of start(), keys and initial values must be variables if they are
/// aggregates: see channel::send().
///
/// Thread-safety: any thread or executor, but only one start() or stop() at a time. Calls may be
/// made meanwhile: calls that come too early or too late fail.
/// Lifetime: the pool must outlive the shards, and must not be stopped before them. The destructor
/// stops like stop(), and blocks until the end. If the shards are destroyed while they are started
/// on a thread of the pool, or after the pool was stopped, the destructor therefore ends the
/// program with a message. An exception of an instance's stop() then ends the program, too.
/// Errors: those of the functions; std::logic_error before start() and once stop() has begun.
/// Complexity: a call costs one post to the loop and one back, none if the coroutine is on that
/// loop, and two frames from the slab, three for an awaitable; no lock. start() also allocates the
/// memory that the end needs, three frames for each loop, so that the end cannot fail.
template <class T, class Loop = gyre::loop>
class sharded {
 public:
  using pool_type = basic_loop_pool<Loop>;

  /// Throws std::bad_alloc.
  explicit sharded(pool_type& loops) : loops_(loops), shards_(loops.size()) {}
  sharded& operator=(sharded&&) = delete;
  ~sharded() {
    if (!is_started()) return;
    check_end();
    sync_wait(std::move(end_));
  }

  /// Constructs all instances concurrently: T(loop, arguments…) if there is such a constructor,
  /// otherwise T(arguments…), from copies that exist until all are constructed. From ordinary code:
  /// `sync_wait(shards.start(…))`. A stop request does not prevent it.
  ///
  /// Errors: an exception of a constructor, after which all instances are destroyed again;
  /// std::bad_alloc, with no instance constructed; std::logic_error if it is already started.
  template <class... Arguments>
    requires(!(detail::unsafe_temporary<Arguments> || ...))
  task<> start(Arguments&&... arguments) {
    return start_with<std::decay_t<Arguments>...>(std::forward<Arguments>(arguments)...);
  }
  // This overload and similar ones below explain wrong arguments: see
  // base/detail/awaited_value.hpp.
  template <class... Arguments>
    requires(detail::unsafe_temporary<Arguments> || ...)
  GYRE_MISUSE(GYRE_UNSAFE_TEMPORARY)
  std::suspend_never start(Arguments&&... arguments);

  /// Refuses further calls; awaits `instance.stop()`, if there is such an awaitable; waits for
  /// running calls; and destroys the instances, each on its loop. Must not be awaited within a
  /// call, which would wait for itself. No effect unless started. A stop request does not prevent
  /// it.
  ///
  /// Errors: the first exception of an instance's stop(), once all instances are destroyed;
  /// std::bad_alloc from the call itself, without an effect.
  task<> stop() {
    if (is_started()) co_await std::move(end_);
  }

  /// Whether start() was called, and stop() has not ended since then.
  bool is_started() const noexcept { return is_started_.load(std::memory_order_relaxed); }
  /// The number of loops.
  std::size_t size() const noexcept { return shards_.size(); }

  /// Calls `function` with the instance to which `key` belongs: always the same instance, chosen by
  /// std::hash and loop_pool::for_hash().
  template <class Key, std::invocable<T&> F>
  auto call(const Key& key, F function) {
    return call_on(loops_.index_for_hash(detail::shard_hash(key)), std::move(function));
  }
  template <detail::unsafe_temporary Key, class F>
  GYRE_MISUSE(GYRE_UNSAFE_TEMPORARY)
  std::suspend_never call(Key&& key, F function);
  /// Calls `function` with the instance of the loop with this index in the pool. Throws
  /// std::out_of_range.
  template <std::invocable<T&> F>
  auto call_on(std::size_t index, F function) {
    check_started();
    if (index >= size()) throw std::out_of_range("gyre::sharded: no loop has this index");
    return on(loops_[index], run(index, std::move(function)));
  }
  /// Calls a copy of `function` with each instance, concurrently, and discards the results. Throws
  /// the first exception after all calls have ended.
  template <std::invocable<T&> F>
  task<> on_each(F function) {
    std::vector<task<result_of<F>>> calls = calls_of_all(function);
    static_cast<void>(co_await when_all(std::move(calls)));
  }
  /// Calls a copy of `map` with each instance, concurrently, and then returns reduce(…
  /// reduce(reduce(initial, first), second) …, last), in the order of the loops.
  template <std::invocable<T&> Map, class Value, class Reduce = std::plus<>>
    requires(!detail::unsafe_temporary<Value>)
  task<std::decay_t<Value>> map_reduce(Map map, Value&& initial, Reduce reduce = {}) {
    return reduce_mapped(std::move(map), std::decay_t<Value>(std::forward<Value>(initial)),
                         std::move(reduce));
  }
  template <class Map, detail::unsafe_temporary Value, class Reduce = std::plus<>>
  GYRE_MISUSE(GYRE_UNSAFE_TEMPORARY)
  std::suspend_never map_reduce(Map map, Value&& initial, Reduce reduce = {});

  /// The instance of the loop that the calling thread runs. Throws std::logic_error on other
  /// threads. Complexity: linear in the number of loops.
  // The function is not inlined, because coroutines change threads and compilers cache addresses of
  // thread-locals.
  [[gnu::noinline]] T& local() {
    for (std::size_t index = 0; index < size(); ++index) {
      if (&loops_[index] == event_loop::current() && shards_[index] != nullptr) {
        return shards_[index]->instance;
      }
    }
    throw std::logic_error(
        "gyre::sharded: local() needs a thread of the pool, and a start() before");
  }

 private:
  // An instance and its calls, which only its loop's thread uses.
  struct alignas(false_sharing_range) shard {
    template <class... Arguments>
    explicit shard(Loop& target, const Arguments&... arguments)
      requires std::constructible_from<T, Loop&, const Arguments&...>
        : instance(target, arguments...) {}
    template <class... Arguments>
    explicit shard(Loop&, const Arguments&... arguments)
      requires(!std::constructible_from<T, Loop&, const Arguments&...>)
        : instance(arguments...) {}

    T instance;
    std::size_t running_calls = 0;
    bool is_stopping = false;
    manual_reset_event calls_ended;
  };

  // A call that runs on the loop. It is counted until it leaves the loop.
  class running_call {
   public:
    explicit running_call(shard& target) noexcept : shard_(&target) { ++target.running_calls; }
    running_call& operator=(running_call&&) = delete;
    ~running_call() { end(); }
    void end() noexcept {
      shard* const owner = std::exchange(shard_, nullptr);
      if (owner == nullptr || --owner->running_calls > 0) return;
      if (owner->is_stopping) owner->calls_ended.set();
    }

   private:
    shard* shard_;
  };

  template <class F>
  using result_of = typename detail::shard_call_result<F, T>::type;

  // The error of each loop, in the order of the loops; null for loops without an error.
  using errors = std::vector<std::exception_ptr>;

  template <class... Arguments>
  task<> start_with(Arguments... arguments) {
    if (is_started()) throw std::logic_error("gyre::sharded: started twice");
    errors each_error(size());
    std::vector<task<>> starts;
    starts.reserve(size());
    for (std::size_t index = 0; index < size(); ++index) {
      starts.push_back(on(loops_[index], make_instance(each_error[index], index, arguments...)));
    }
    // The memory of the end is allocated now; afterwards only the instances allocate.
    end_ = prepare_end();
    // relaxed, here and elsewhere: each shard is used on its own loop, which orders the accesses.
    is_started_.store(true, std::memory_order_relaxed);
    co_await when_all(std::move(starts));
    const std::exception_ptr error = first_of(each_error);
    if (error == nullptr) co_return;
    try {
      co_await std::move(end_);
    } catch (...) {  // NOLINT(bugprone-empty-catch): the first error is reported
    }
    std::rethrow_exception(error);
  }

  template <class... Arguments>
  task<> make_instance(std::exception_ptr& error, std::size_t index,
                       const Arguments&... arguments) {
    try {
      shards_[index] = std::make_unique<shard>(loops_[index], arguments...);
    } catch (...) {
      error = std::current_exception();
    }
    co_return;
  }

  // Allocates all memory that the end needs. The task is started once.
  task<> prepare_end() {
    errors each_error(size());
    std::vector<task<>> ends;
    ends.reserve(size());
    for (std::size_t index = 0; index < size(); ++index) {
      ends.push_back(on(loops_[index], shielded(end_instance(each_error[index], index))));
    }
    return end_all(std::move(ends), std::move(each_error));
  }

  task<> end_all(std::vector<task<>> ends, errors each_error) {
    co_await when_all(std::move(ends));
    is_started_.store(false, std::memory_order_relaxed);
    const std::exception_ptr error = first_of(each_error);
    if (error != nullptr) std::rethrow_exception(error);
  }

  task<> end_instance(std::exception_ptr& error, std::size_t index) {
    shard* const target = shards_[index].get();
    if (target == nullptr) co_return;  // null if the instance's constructor has thrown
    target->is_stopping = true;
    if constexpr (detail::stops_asynchronously<T>) {
      try {
        co_await target->instance.stop();
      } catch (...) {
        error = std::current_exception();
      }
      co_await resume_on(loops_[index]);
    }
    if (target->running_calls > 0) co_await target->calls_ended.wait();
    shards_[index].reset();
  }

  template <class F>
  task<result_of<F>> run(std::size_t index, F function) {
    static_assert(!std::is_reference_v<result_of<F>>,
                  "gyre::sharded: a function must not return a reference to a loop's data");
    shard* const target = shards_[index].get();
    if (target == nullptr || target->is_stopping) throw_not_started();
    running_call call(*target);
    if constexpr (awaitable<std::invoke_result_t<F&, T&>>) {
      task<result_of<F>> work = as_task(std::invoke(function, target->instance));
      co_await detail::await_ready_state(work);
      co_await resume_on(loops_[index]);  // the function may have resumed on another executor
      call.end();
      co_return co_await detail::take_result(work);
    } else {
      co_return std::invoke(function, target->instance);
    }
  }

  template <class Map, class Value, class Reduce>
  task<Value> reduce_mapped(Map map, Value initial, Reduce reduce) {
    std::vector<task<result_of<Map>>> calls = calls_of_all(map);
    auto results = co_await when_all(std::move(calls));
    for (auto& result : results)
      initial = std::invoke(reduce, std::move(initial), std::move(result));
    co_return initial;
  }

  template <class F>
  std::vector<task<result_of<F>>> calls_of_all(const F& function) {
    check_started();
    std::vector<task<result_of<F>>> calls;
    calls.reserve(size());
    for (std::size_t index = 0; index < size(); ++index) calls.push_back(call_on(index, function));
    return calls;
  }

  static std::exception_ptr first_of(const errors& each_error) noexcept {
    for (const std::exception_ptr& error : each_error) {
      if (error != nullptr) return error;
    }
    return nullptr;
  }
  void check_started() const {
    if (!is_started()) [[unlikely]]
      throw_not_started();
  }
  [[noreturn, gnu::cold]] static void throw_not_started() {
    throw std::logic_error("gyre::sharded: not started, or stopped");
  }

  void check_end() noexcept {
    for (std::size_t index = 0; index < size(); ++index) {
      if (!loops_[index].in_loop_thread() && !loops_[index].stopped()) continue;
      std::fputs(
          "gyre::sharded: destroyed while it was started, on a thread of its loops or after they "
          "were stopped; await stop() before\n",
          stderr);
      std::abort();
    }
  }

  pool_type& loops_;
  std::vector<std::unique_ptr<shard>> shards_;  // each element is used only on its loop's thread
  std::atomic<bool> is_started_{false};
  task<> end_;  // start() makes the task, so that exhausted memory cannot prevent the end
};

}  // namespace gyre
