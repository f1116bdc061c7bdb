// SPDX-License-Identifier: Apache-2.0
// inplace_stop_source, inplace_stop_token, inplace_stop_callback: those of C++26, for C++23.
//
//     gyre::inplace_stop_source source;
//     gyre::inplace_stop_callback on_stop(source.get_token(), [&] { socket.cancel(); });
//     source.request_stop();  // calls it, here and now
#pragma once

#include <gyre/base/atomic.hpp>

#include <pthread.h>

#include <cassert>
#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace gyre {

class inplace_stop_source;
template <typename CallbackFn>
class inplace_stop_callback;

namespace detail {

class linked_stop_source;
class bare_stop_callback;

/// A callback as a node in the list of its source.
class stop_callback_base {
 public:
  stop_callback_base& operator=(stop_callback_base&&) = delete;

 protected:
  using invoker = void(stop_callback_base& self) noexcept;

  stop_callback_base(const inplace_stop_source* source, invoker* invoke) noexcept
      : source_(source), invoke_(invoke) {}
  ~stop_callback_base() = default;

  // Called by the constructor and the destructor of the whole callback.
  inline void attach() noexcept;
  inline void detach() noexcept;

 private:
  friend inplace_stop_source;

  const inplace_stop_source* source_;  // null: nothing to leave
  invoker* invoke_;
  // The source's lock guards the links. The first callback of the list, and one that was taken out
  // to be called, have no previous one.
  stop_callback_base* next_ = nullptr;
  stop_callback_base* previous_ = nullptr;
};

}  // namespace detail

/// A view of a source: tells whether a stop was requested; one pointer. A default-constructed token
/// has no source and never stops.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: the source must outlive every use of its tokens.
class inplace_stop_token {
 public:
  /// The type that registers a callback with this kind of token.
  template <typename CallbackFn>
  using callback_type = inplace_stop_callback<CallbackFn>;

  constexpr inplace_stop_token() noexcept = default;

  /// Whether a stop was requested: once true, true for ever, and what happened before the request
  /// happens before the return. Costs one load.
  [[nodiscard]] bool stop_requested() const noexcept;
  /// Whether the token has a source.
  [[nodiscard]] constexpr bool stop_possible() const noexcept { return source_ != nullptr; }

  constexpr void swap(inplace_stop_token& other) noexcept { std::swap(source_, other.source_); }
  /// Whether both have the same source, or none.
  friend constexpr bool operator==(const inplace_stop_token&,
                                   const inplace_stop_token&) noexcept = default;

 private:
  friend inplace_stop_source;
  friend detail::linked_stop_source;
  friend detail::bare_stop_callback;
  template <typename CallbackFn>
  friend class inplace_stop_callback;

  constexpr explicit inplace_stop_token(const inplace_stop_source* source) noexcept
      : source_(source) {}

  const inplace_stop_source* source_ = nullptr;
};

/// A token that never stops, at no cost.
class never_stop_token {
 public:
  /// A callback that is never called and not even kept.
  template <typename CallbackFn>
  struct [[maybe_unused]] callback_type {
    template <typename Initializer>
    constexpr explicit callback_type(never_stop_token, Initializer&&) noexcept {}
  };

  [[nodiscard]] static constexpr bool stop_requested() noexcept { return false; }
  [[nodiscard]] static constexpr bool stop_possible() noexcept { return false; }
  friend constexpr bool operator==(const never_stop_token&,
                                   const never_stop_token&) noexcept = default;
};

/// The state of a stop request, which its tokens report. Four words, no allocation.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: outlives the uses of its tokens, its callbacks and calls of its members, except that
/// the callback that is called last may destroy the source, as a coroutine does that ends in it.
class inplace_stop_source {
 public:
  constexpr inplace_stop_source() noexcept = default;
  ~inplace_stop_source() {
    // relaxed: a source that is used while it is destroyed is lost anyway.
    assert(first(state_.load(std::memory_order_relaxed)) == nullptr &&
           "a stop source was destroyed before a callback of its token: keep it until the wait, "
           "scope or callback that got the token has ended");
    if (destroyed_ != nullptr) *destroyed_ = true;
  }

  [[nodiscard]] constexpr inplace_stop_token get_token() const noexcept {
    return inplace_stop_token(this);
  }
  [[nodiscard]] static constexpr bool stop_possible() noexcept { return true; }
  /// As inplace_stop_token::stop_requested().
  [[nodiscard]] bool stop_requested() const noexcept {
    // acquire: pairs with the release in request_stop().
    const word state = state_.load(std::memory_order_acquire);
    return (state & (stopped | unlinked)) != 0 && ((state & stopped) != 0 || link_requested_stop());
  }

  /// The first call requests the stop, calls the callbacks, the youngest first and without a lock,
  /// and returns true. Later calls return false at once, even while callbacks run. O(callbacks).
  bool request_stop() noexcept;

 private:
  friend detail::stop_callback_base;
  friend detail::linked_stop_source;

  // The first callback's address, and in its low bits:
  using word = std::uintptr_t;
  static constexpr word locked = 1;
  static constexpr word stopped = 2;
  static constexpr word unlinked = 4;  // a linked_stop_source whose link has not been made
  static constexpr word flags = locked | stopped | unlinked;
  static_assert(alignof(detail::stop_callback_base) > flags);
  static detail::stop_callback_base* first(word state) noexcept {
    return reinterpret_cast<detail::stop_callback_base*>(state & ~flags);
  }
  static word to_word(detail::stop_callback_base* first) noexcept {
    return reinterpret_cast<word>(first);
  }

  constexpr explicit inplace_stop_source(word state) noexcept : state_(state) {}

  [[gnu::cold]] bool link_requested_stop() const noexcept;
  word lock_unless(word blocking_bits, word also_set) const noexcept;
  void unlock(word state) const noexcept;
  void attach(detail::stop_callback_base& callback) const noexcept;
  void detach(detail::stop_callback_base& callback) const noexcept;

  mutable detail::atomic<word> state_{0};
  detail::atomic<detail::stop_callback_base*> running_{nullptr};  // the one being called
  ::pthread_t notifier_{};     // the thread of request_stop(); set before a callback is taken out
  bool* destroyed_ = nullptr;  // in request_stop(): whether a callback destroyed the source
};

inline bool inplace_stop_token::stop_requested() const noexcept {
  return source_ != nullptr && source_->stop_requested();
}

inline void detail::stop_callback_base::attach() noexcept {
  if (source_ != nullptr) source_->attach(*this);
}
inline void detail::stop_callback_base::detach() noexcept {
  if (source_ != nullptr) source_->detach(*this);
}

/// A registered callback: calls a `CallbackFn` once if a stop is requested before its destruction,
/// within request_stop(), or within the constructor if the stop was requested before that. An
/// exception from the function terminates the program.
///
/// Thread-safety: construction and destruction may happen on different threads.
/// Lifetime: does not move; the source must outlive the callback.
/// Complexity: construction and destruction are an uncontended compare-exchange each, or a branch
/// if the token has no source.
template <typename CallbackFn>
class inplace_stop_callback : private detail::stop_callback_base {
 public:
  using callback_type = CallbackFn;

  /// Registers the function made of `init`. Throws what its constructor throws.
  template <typename Initializer>
    requires std::constructible_from<CallbackFn, Initializer>
  explicit inplace_stop_callback(inplace_stop_token token, Initializer&& init) noexcept(
      std::is_nothrow_constructible_v<CallbackFn, Initializer>)
      : stop_callback_base(token.source_, &invoke), function_(std::forward<Initializer>(init)) {
    // The check stands here, as a class may have a callback that refers to the class, which is
    // incomplete before.
    static_assert(std::invocable<CallbackFn> && std::destructible<CallbackFn>);
    attach();
  }

  /// Waits while the function runs on another thread; afterwards it does not run. Does not wait
  /// when called by the function itself.
  ~inplace_stop_callback() { detach(); }

 private:
  static void invoke(stop_callback_base& self) noexcept {
    std::forward<CallbackFn>(static_cast<inplace_stop_callback&>(self).function_)();
  }

  [[no_unique_address]] CallbackFn function_;
};

template <typename CallbackFn>
inplace_stop_callback(inplace_stop_token, CallbackFn) -> inplace_stop_callback<CallbackFn>;

namespace detail {

/// As inplace_stop_callback, with a plain function that finds the callback's owner by the address
/// of the callback: four words, of which none is a pointer to the owner.
class bare_stop_callback : public stop_callback_base {
 public:
  bare_stop_callback(inplace_stop_token token,
                     void (*function)(stop_callback_base& self) noexcept) noexcept
      : stop_callback_base(token.source_, function) {
    attach();
  }
  ~bare_stop_callback() { detach(); }
};

/// A stop callback that passes the stop on to `source`.
struct request_stop_of {
  inplace_stop_source* source;
  void operator()() const noexcept { source->request_stop(); }
};

/// A source that also stops when its parent does: the stop of work within work. The link takes a
/// compare-exchange of the parent, and one at the end; it is made when the source's tokens are
/// first looked at or get a callback, so that work without waits does without. A parent that can
/// never stop costs a branch. The parent's source must outlive it.
class linked_stop_source : public inplace_stop_source {
 public:
  explicit linked_stop_source(inplace_stop_token parent) noexcept
      : inplace_stop_source(parent.stop_possible() ? unlinked : 0), parent_(parent) {}
  linked_stop_source& operator=(linked_stop_source&&) = delete;
  /// Destroys a source that no other thread uses any more.
  ~linked_stop_source() {
    if (is_linked()) link_.~link();
  }

  /// Whether the link was made. Called when no other thread uses the source any more.
  bool is_linked() const noexcept {
    return claimed_.load(std::memory_order_relaxed);  // relaxed: no other thread
  }
  /// Whether `token` is its parent's.
  bool follows(inplace_stop_token token) const noexcept { return token == parent_; }

 private:
  friend inplace_stop_source;
  using link = inplace_stop_callback<request_stop_of>;

  // The source, if it has no link yet; else null.
  static linked_stop_source* unlinked_one(const inplace_stop_source* source) noexcept;
  void make_link() noexcept;

  const inplace_stop_token parent_;
  atomic<bool> claimed_{false};                 // by the thread that makes the link
  linked_stop_source* next_to_link_ = nullptr;  // in make_link()
  union {
    link link_;
  };
};

}  // namespace detail
}  // namespace gyre
