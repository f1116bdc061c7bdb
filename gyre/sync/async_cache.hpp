// SPDX-License-Identifier: Apache-2.0
// async_cache: an LRU cache whose values are loaded by coroutines, once for all callers that wait
// for them.
//
//     gyre::async_cache<std::string, page> pages(
//         {.capacity = 1000, .time_to_live = 5min, .clock = loop.timers()});
//
//     std::shared_ptr<const page> start = co_await pages.get("index", load_page);
//     pages.invalidate("index");
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/sync/detail/shared_key.hpp>
#include <gyre/sync/single_flight.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace gyre {

/// The settings of an async_cache.
template <class Key, class T>
struct async_cache_options {
  /// The largest number of entries: required, at least 1.
  std::size_t capacity = 0;
  /// The largest sum of the entries' weights, in the unit of `weigher`, such as bytes.
  std::size_t weight_limit = std::numeric_limits<std::size_t>::max();
  /// Returns the weight of an entry. Called without a lock, on any thread. If null, each entry
  /// weighs 1.
  std::function<std::size_t(const Key&, const T&)> weigher = nullptr;
  /// The time after which a stored entry counts as missing. Must be positive.
  duration time_to_live = duration::max();
  /// The clock that measures the time to live; required if time_to_live is set. Must outlive the
  /// cache and its loads.
  const timer_service* clock = nullptr;
  /// The executor that runs the loads; must outlive them. If null, a load runs on the executor of
  /// its first caller.
  executor* where = nullptr;
};

/// Counts of events in an async_cache since its construction.
struct async_cache_statistics {
  std::uint64_t hits = 0;       ///< lookups that found a value
  std::uint64_t misses = 0;     ///< lookups that found no value, or an expired one
  std::uint64_t loads = 0;      ///< loads that were begun
  std::uint64_t failures = 0;   ///< loads that ended with an error or a stop
  std::uint64_t evictions = 0;  ///< entries that were dropped to make room
};

namespace detail {

/// The state of an async_cache: its entries and counters. The cache and its running loads share
/// ownership.
template <class Key, class T, class Hash, class Equal>
class async_cache_core {
 public:
  using options = async_cache_options<Key, T>;
  using value = std::shared_ptr<const T>;
  using shared_key_type = shared_key<Key>;
  using flights = single_flight<Key, value, Hash, Equal>;

  explicit async_cache_core(options&& settings)
      : settings_(std::move(settings)), loads_(settings_.where) {
    if (settings_.capacity == 0)
      throw std::invalid_argument("gyre::async_cache: the capacity is 0; needs 1 at least");
    require_positive(settings_.time_to_live, "gyre::async_cache: time_to_live");
    if (has_time_to_live() && settings_.clock == nullptr) {
      throw std::invalid_argument(
          "gyre::async_cache: the time to live needs a clock, such as loop.timers()");
    }
  }

  /// Returns the value for `key`, or null. Counts a hit or a miss, and marks the entry as the most
  /// recently used.
  template <class K>
  value find(const K& key) {
    const steady_time now = this->now();
    node old_node;  // destroyed after the lock is released, because ~T is user code
    const std::lock_guard hold(mutex_);
    const auto match = entries_.find(key);
    if (match != entries_.end() && match->second.expiry > now) {
      ++statistics_.hits;
      use(match->second);
      return match->second.content;
    }
    ++statistics_.misses;
    if (match != entries_.end()) old_node = remove(match);
    return nullptr;
  }

  /// Awaited, returns the value of the running load for `key`, or of a new load.
  template <class Loader>
  static task<value> share_load(const std::shared_ptr<async_cache_core>& self, Key key,
                                Loader loader) {
    return self->loads_.run_with_identity(
        std::move(key), [self, loader = std::move(loader)](const shared_key_type& own_key) {
          return load(self, own_key, loader);
        });
  }

  /// Stores `content` for `key`. If `is_loaded`, `content` comes from the load `key`, and is stored
  /// only if that load is still current; otherwise `content` also replaces a running load for an
  /// equal key.
  void store(const shared_key_type& key, value content, bool is_loaded) {
    const std::size_t weight = settings_.weigher ? settings_.weigher(*key, *content) : 1;
    const steady_time expiry =
        has_time_to_live() ? later(now(), settings_.time_to_live) : steady_time::max();
    for (bool is_stored = false; !is_stored;) {
      node old_node;
      typename flights::node old_flight;
      const std::lock_guard hold(mutex_);
      if (is_loaded && !loads_.is_current(key)) return;
      if (!is_loaded) old_flight = loads_.extract(*key);
      is_stored = store_or_make_room(key, content, weight, expiry, old_node);
    }
  }

  template <class K>
  bool invalidate(const K& key) {
    node old_node;
    typename flights::node old_flight;
    const std::lock_guard hold(mutex_);
    old_flight = loads_.extract(key);
    const auto match = entries_.find(key);
    if (match == entries_.end()) return false;
    old_node = remove(match);
    return true;
  }

  void clear() {
    typename flights::table old_flights;
    table old_entries;
    intrusive_list<entry> removed_by_use;
    const std::lock_guard hold(mutex_);
    loads_.extract_all(old_flights);
    entries_.swap(old_entries);
    removed_by_use.splice_back(by_use_);
    weight_ = 0;
  }

  std::size_t size() const {
    const std::lock_guard hold(mutex_);
    return entries_.size();
  }
  std::size_t weight() const {
    const std::lock_guard hold(mutex_);
    return weight_;
  }
  async_cache_statistics statistics() const {
    const std::lock_guard hold(mutex_);
    return statistics_;
  }

 private:
  struct entry : intrusive_list_node {
    const shared_key_type* key = nullptr;  // the key in the table
    value content;
    std::size_t weight = 0;
    steady_time expiry;
  };
  using table = shared_key_map<Key, entry, Hash, Equal>;
  using node = typename table::node_type;

  /// Counts a load, and a failure unless succeed() is called.
  class attempt {
   public:
    explicit attempt(async_cache_core& core) : core_(core) {
      const std::lock_guard hold(core_.mutex_);
      ++core_.statistics_.loads;
    }
    attempt& operator=(attempt&&) = delete;
    ~attempt() {
      if (has_succeeded_) return;
      const std::lock_guard hold(core_.mutex_);
      ++core_.statistics_.failures;
    }
    void succeed() noexcept { has_succeeded_ = true; }

   private:
    async_cache_core& core_;
    bool has_succeeded_ = false;
  };

  // Loads the value in the single_flight execution `key`, and stores it if that execution is still
  // current, that is, unless the key was invalidated or stored meanwhile.
  template <class Loader>
  static task<value> load(std::shared_ptr<async_cache_core> self, shared_key_type key,
                          Loader loader) {
    // Another load may have stored the value after the caller looked it up.
    if (value cached_value = self->peek(key)) co_return cached_value;
    attempt own_attempt(*self);
    value new_value;
    if constexpr (awaitable<std::invoke_result_t<Loader&, const Key&>>) {
      decltype(auto) load_task = std::invoke(loader, *key);
      auto result = co_await static_cast<decltype(load_task)&&>(load_task);
      new_value = std::make_shared<const T>(std::move(result));
    } else {
      new_value = std::make_shared<const T>(std::invoke(loader, *key));
    }
    self->store(key, new_value, true);
    own_attempt.succeed();
    co_return new_value;
  }

  bool has_time_to_live() const noexcept { return settings_.time_to_live != duration::max(); }
  steady_time now() const noexcept {
    return has_time_to_live() ? settings_.clock->now() : steady_time::min();
  }

  value peek(const shared_key_type& key) const {
    const steady_time now = this->now();
    const std::lock_guard hold(mutex_);
    const auto match = entries_.find(key);
    const bool valid = match != entries_.end() && match->second.expiry > now;
    return valid ? match->second.content : nullptr;
  }

  // The functions below are called with the lock held.

  void use(entry& target) noexcept {
    target.unlink();
    by_use_.push_back(target);
  }
  node remove(typename table::iterator position) {
    entry& old_entry = position->second;
    old_entry.unlink();
    weight_ -= old_entry.weight;
    return entries_.extract(position);
  }

  // Returns true if `content` was swapped into its entry, or is too heavy to be stored; false if
  // another entry was dropped to make room, so that the caller must call again.
  bool store_or_make_room(const shared_key_type& key, value& content, std::size_t weight,
                          steady_time expiry, node& dropped_node) {
    auto match = entries_.find(key);
    const bool is_new = match == entries_.end();
    if (weight > settings_.weight_limit) {
      if (!is_new) dropped_node = remove(match);
      return true;
    }
    const std::size_t other_weight = weight_ - (is_new ? 0 : match->second.weight);
    const bool has_room = entries_.size() + (is_new ? 1 : 0) <= settings_.capacity &&
                          other_weight <= settings_.weight_limit - weight;
    if (!has_room) {
      // An entry in use is newest, so the next line drops another one.
      if (!is_new) use(match->second);
      dropped_node = remove(entries_.find(*by_use_.front().key));
      ++statistics_.evictions;
      return false;
    }
    if (is_new) match = entries_.try_emplace(key).first;
    entry& target = match->second;
    target.key = &match->first;
    target.content.swap(content);
    target.weight = weight;
    target.expiry = expiry;
    weight_ = other_weight + weight;
    use(target);
    return true;
  }

  const options settings_;
  flights loads_;
  mutable std::mutex mutex_;
  // mutex_ guards the members below. by_use_ links the entries of entries_, so it is destroyed
  // first.
  table entries_;
  intrusive_list<entry> by_use_;  // the most recently used last
  std::size_t weight_ = 0;
  async_cache_statistics statistics_;
};

}  // namespace detail

/// A cache of at most `capacity` entries, which drops the least recently used ones. A value that is
/// missing is loaded by a coroutine, once for all callers that need it at the same time. A load is
/// an execution of a single_flight: see there for where it runs and how it stops.
///
/// Values are shared, not copied: callers get a std::shared_ptr<const T>, which stays valid when
/// the entry is dropped. Errors are not cached. invalidate(), clear() and put() during a load do
/// not affect its callers, but its result is not stored: later callers load again, or get the value
/// of put().
///
/// Thread-safety: every member may be called from any thread. Hash and Equal run while a lock is
/// held, and must not throw; no other user code runs under the lock.
/// Lifetime: must outlive the calls of get(), but not its loads, which may continue after their
/// callers were destroyed.
/// Errors: the constructor throws std::invalid_argument for a capacity of 0, and for a time to live
/// that is not positive or has no clock.
/// Complexity: O(1): a lookup takes a lock and searches a hash table; storing a heavy value may
/// drop several entries.
template <class Key, class T, class Hash = std::hash<Key>, class Equal = std::equal_to<Key>>
class async_cache {
  static_assert(std::copy_constructible<Key> && std::is_object_v<T>);
  static_assert(alignof(Key) <= 16 && alignof(T) <= 16,
                "compilers do not align coroutine frames beyond 16 bytes");
  using core = detail::async_cache_core<Key, T, Hash, Equal>;

 public:
  using key_type = Key;
  using value_type = T;
  using options = async_cache_options<Key, T>;

  explicit async_cache(options settings) : core_(std::make_shared<core>(std::move(settings))) {}
  async_cache& operator=(async_cache&&) = delete;

  /// Awaited, returns the value for `key`: the stored value, else the result of the running load,
  /// else the result of `loader(key)`, a value that T can be made from or an awaitable of one.
  ///
  /// Lifetime: a load owns copies of key and loader, and may outlive its first caller if that
  /// caller is stopped; objects that the loader refers to must outlive it.
  /// Errors: the loader's exception, the same object for all callers; an exception of the weigher;
  /// operation_cancelled when the caller is asked to stop.
  /// Complexity: allocates a coroutine frame, which calling try_get() first avoids; a load
  /// allocates more frames, and the value.
  template <std::copy_constructible Loader>
    requires std::invocable<Loader&, const Key&>
  task<std::shared_ptr<const T>> get(detail::awaited_value<Key> requested_key, Loader loader) {
    Key key = static_cast<Key&&>(std::move(requested_key));
    std::shared_ptr<const T> result = core_->find(key);
    if (result != nullptr) co_return result;
    co_return co_await core::share_load(core_, std::move(key), std::move(loader));
  }

  /// Returns the value for `key` if it is stored, else null. Does not wait for a running load.
  [[nodiscard]] std::shared_ptr<const T> try_get(const Key& key) { return core_->find(key); }
  /// Like try_get(const Key&), for a key of another type, if Hash and Equal are transparent.
  template <detail::finds_key<Hash, Equal> K>
  [[nodiscard]] std::shared_ptr<const T> try_get(const K& key) {
    return core_->find(key);
  }

  /// Stores `value` for `key`; the result of a load that runs for `key` is then not stored. A value
  /// heavier than weight_limit is not stored. Throws std::bad_alloc, and exceptions of the weigher.
  void put(Key key, T value) {
    core_->store(std::make_shared<const Key>(std::move(key)),
                 std::make_shared<const T>(std::move(value)), false);
  }

  /// Drops the value for `key`, also one that is being loaded. Returns whether a value was stored.
  bool invalidate(const Key& key) { return core_->invalidate(key); }
  /// Like invalidate(const Key&), for a key of another type, if Hash and Equal are transparent.
  template <detail::finds_key<Hash, Equal> K>
  bool invalidate(const K& key) {
    return core_->invalidate(key);
  }
  /// Drops all values, also those that are being loaded.
  void clear() { core_->clear(); }

  /// Returns the number of entries, including expired ones that were not looked up or dropped yet.
  [[nodiscard]] std::size_t size() const { return core_->size(); }
  /// Returns the sum of the weights of the entries that size() counts.
  [[nodiscard]] std::size_t weight() const { return core_->weight(); }
  [[nodiscard]] async_cache_statistics statistics() const { return core_->statistics(); }

 private:
  const std::shared_ptr<core> core_;
};

}  // namespace gyre
