// SPDX-License-Identifier: Apache-2.0
// single_flight: runs a function once for all coroutines that need its result at the same time.
//
//     gyre::single_flight<std::string, page> flights;
//
//     page start = co_await flights.run("index", load_page);  // task<page> load_page(std::string)
#pragma once

#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/sync/detail/shared_key.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/shared_task.hpp>
#include <gyre/task/task.hpp>

#include <cassert>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gyre {

namespace detail {
template <class Key, class T, class Hash, class Equal>
class async_cache_core;
}  // namespace detail

/// Suppresses duplicate work, like Go's golang.org/x/sync/singleflight: while a function runs for a
/// key, further calls with the key wait for its result, which all of them get. Results are not
/// cached: a call that begins after the function has ended runs it again. To cache results, see
/// async_cache.
///
/// The function runs as a shared_task: on the executor of its first caller, or the one passed to
/// the constructor, with a stop token of its own, and without task-local values. A caller that is
/// asked to stop stops waiting at once while others wait; if the last caller is asked to stop, so
/// is the function, and the caller waits for its end. A call that begins meanwhile runs its own
/// function.
///
/// Thread-safety: every member may be called from any thread. Hash and Equal run while a lock is
/// held, and must not throw; no other user code runs under the lock.
/// Lifetime: must outlive its calls. If the first caller's executor may be destroyed before the
/// function has ended, pass one to the constructor.
/// Complexity: O(1). A call locks and searches a hash table twice.
template <class Key, class T = void, class Hash = std::hash<Key>, class Equal = std::equal_to<Key>>
class single_flight {
  static_assert(std::copy_constructible<Key>);
  static_assert(alignof(Key) <= 16, "compilers do not align coroutine frames beyond 16 bytes");
  static_assert(std::is_void_v<T> || (std::is_object_v<T> && std::copy_constructible<T>),
                "each caller gets a copy of the result: share large ones as shared_ptr<const T>");

 public:
  using key_type = Key;
  using value_type = T;

  single_flight() = default;
  /// Runs the functions on `target`, which must outlive them.
  explicit single_flight(executor& target) : single_flight(&target) {}
  single_flight& operator=(single_flight&&) = delete;
  ~single_flight() { assert(executions_.empty() && "destroyed while a call waits"); }

  /// Awaited, returns the result of `function(key)`, which may return an awaitable: the result of
  /// the execution that runs for `key`, else of a new one. The argument is a copy of `key` that
  /// lives as long as the execution.
  ///
  /// Lifetime: an execution may outlive its first caller if that caller is stopped. The execution
  /// owns a copy of the function; objects that the function refers to must outlive it. A function
  /// that calls run() with the same key waits for itself.
  /// Errors: the function's exception, the same object for all callers; operation_cancelled when
  /// the caller is asked to stop.
  /// Complexity: a coroutine frame; the first caller also makes the execution: its key, its state
  /// and two frames.
  template <std::copy_constructible Function>
    requires std::invocable<Function&, const Key&>
  task<T> run(detail::awaited_value<Key> key, Function function) {
    return run_with_identity(
        static_cast<Key&&>(std::move(key)),
        [function = std::move(function)](const identity& own_key) mutable -> decltype(auto) {
          return std::invoke(function, *own_key);
        });
  }

  /// Makes later calls with `key` run their function again, instead of waiting for the execution
  /// that runs now; its callers still get its result. Returns false if none runs.
  bool forget(const Key& key) { return !extract(key).empty(); }
  /// Like forget(const Key&), for a key of another type, if Hash and Equal are transparent.
  template <detail::finds_key<Hash, Equal> K>
  bool forget(const K& key) {
    return !extract(key).empty();
  }

  /// Returns the number of executions that calls wait for.
  [[nodiscard]] std::size_t size() const {
    const std::lock_guard hold(mutex_);
    return executions_.size();
  }

 private:
  template <class, class, class, class>
  friend class detail::async_cache_core;

  explicit single_flight(executor* target) : target_(target) {}

  // The key of an execution; its address distinguishes executions for equal keys.
  using identity = detail::shared_key<Key>;
  struct execution {
    shared_task<T> work;
    std::size_t callers = 0;
  };
  using table = detail::shared_key_map<Key, execution, Hash, Equal>;
  using node = typename table::node_type;

  /// The part of one call in an execution. The execution leaves the table with its last caller.
  class participation {
   public:
    template <class Function>
    participation(single_flight& flights, const Key& key, const Function& function)
        : flights_(flights) {
      if (join(key)) return;
      // The lock is not held here, because copying the key and the function runs user code.
      key_ = std::make_shared<const Key>(key);
      task<T> call = execute(key_, function);
      work_ = flights.target_ != nullptr ? shared_task<T>(std::move(call), *flights.target_)
                                         : shared_task<T>(std::move(call));
      join_or_add();
    }
    participation& operator=(participation&&) = delete;
    ~participation() { flights_.leave(key_); }

    const shared_task<T>& work() const noexcept { return work_; }

   private:
    bool join(const Key& key) {
      const std::lock_guard hold(flights_.mutex_);
      return join(flights_.executions_.find(key));
    }
    // Joins the execution at `position`, unless there is none, or it has ended or is being stopped.
    // Returns whether it joined. Called with the lock held.
    bool join(typename table::iterator position) {
      if (position == flights_.executions_.end()) return false;
      execution& target = position->second;
      if (target.work.is_done() || target.work.is_abandoned()) return false;
      key_ = position->first;
      work_ = target.work;
      ++target.callers;
      return true;
    }
    void join_or_add() {
      node old_node;
      const shared_task<T> old_work = work_;  // this and `old_node` are destroyed after unlocking
      const std::lock_guard hold(flights_.mutex_);
      const auto match = flights_.executions_.find(key_);
      if (join(match)) return;
      if (match != flights_.executions_.end()) old_node = flights_.executions_.extract(match);
      flights_.executions_.try_emplace(key_, execution{.work = work_, .callers = 1});
    }

    single_flight& flights_;
    identity key_;
    shared_task<T> work_;
  };

  template <class Function>
  static task<T> execute(identity key, Function function) {
    if constexpr (awaitable<std::invoke_result_t<Function&, const identity&>>) {
      decltype(auto) result = std::invoke(function, key);
      co_return co_await static_cast<decltype(result)&&>(result);
    } else {
      co_return std::invoke(function, key);
    }
  }

  /// Like run(), but passes the identity of the execution to `function`.
  template <class Function>
  task<T> run_with_identity(Key key, Function function) {
    for (;;) {
      const participation part(*this, key, function);
      try {
        co_return co_await part.work();
      } catch (const std::system_error& error) {
        if (error.code() != std::errc::owner_dead) throw;
      }
      // Either the last caller of the execution was stopped at the same time, so that a new
      // execution is needed, or the error is the function's own.
      if (!part.work().is_abandoned()) co_return co_await part.work();
    }
  }

  void leave(const identity& key) noexcept {
    node last;  // destroyed after the lock is released
    const std::lock_guard hold(mutex_);
    const auto match = executions_.find(key);
    if (match == executions_.end() || match->first != key) return;
    if (--match->second.callers == 0) last = executions_.extract(match);
  }
  /// Returns whether later calls join the execution `key`.
  bool is_current(const identity& key) const {
    const std::lock_guard hold(mutex_);
    const auto match = executions_.find(key);
    return match != executions_.end() && match->first == key;
  }
  /// Takes the execution for `key` out of the table and returns it, so that the caller destroys it
  /// without the lock.
  template <class K>
  node extract(const K& key) {
    const std::lock_guard hold(mutex_);
    const auto match = executions_.find(key);
    return match == executions_.end() ? node() : executions_.extract(match);
  }
  /// Moves all executions to `target`, which is empty.
  void extract_all(table& target) {
    const std::lock_guard hold(mutex_);
    executions_.swap(target);
  }

  executor* target_ = nullptr;
  mutable std::mutex mutex_;
  table executions_;  // guarded by mutex_
};

}  // namespace gyre
