// SPDX-License-Identifier: Apache-2.0
// inplace_stop_source, inplace_stop_token, inplace_stop_callback: the classes of C++26, for C++23.
//
//     gyre::inplace_stop_source source;
//     gyre::inplace_stop_callback on_stop(source.get_token(), [&] { socket.cancel(); });
//     source.request_stop();  // calls it, here and now
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/task/detail/backtrace.hpp>

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

/// A stop callback, as a node in the list of its source, which the derived class knows.
class stop_callback_base {
 public:
  stop_callback_base& operator=(stop_callback_base&&) = delete;

 protected:
  using invoker = void(stop_callback_base& self) noexcept;

  explicit stop_callback_base(invoker* function) noexcept : invoke_(function) {}
  ~stop_callback_base() = default;

  // Adds the callback to the list of `source`. Returns false if a stop was requested before; the
  // caller must then call invoke(). Called by the constructor of the complete callback.
  [[nodiscard]] inline bool attach(const inplace_stop_source& source) noexcept;
  // Removes the callback from the list of `source`, if it is still there, or waits while another
  // thread calls it. Called by the destructor of the complete callback.
  inline void detach(const inplace_stop_source& source) noexcept;
  void invoke() noexcept { invoke_(*this); }

 private:
  friend inplace_stop_source;

  invoker* invoke_;
  // The source's lock protects the links. The first callback in the list has no previous one, and
  // neither has a callback that was removed to be called.
  stop_callback_base* next_ = nullptr;
  stop_callback_base* previous_ = nullptr;
};

}  // namespace detail

/// A view of a source, which reports whether a stop was requested. The size of one pointer. A
/// default-constructed token has no source and never stops.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: the source must outlive every use of its tokens.
class inplace_stop_token {
 public:
  /// The type that registers a callback with this kind of token.
  template <typename CallbackFn>
  using callback_type = inplace_stop_callback<CallbackFn>;

  constexpr inplace_stop_token() noexcept = default;

  /// Returns whether a stop was requested. Once true, it stays true. All actions before the request
  /// then happen before the return. Costs one load.
  [[nodiscard]] bool stop_requested() const noexcept;
  /// Returns whether the token has a source.
  [[nodiscard]] constexpr bool stop_possible() const noexcept { return source_ != nullptr; }

  constexpr void swap(inplace_stop_token& other) noexcept { std::swap(source_, other.source_); }
  /// Returns whether both tokens have the same source, or none.
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

/// A token that never stops and costs nothing.
class never_stop_token {
 public:
  /// A callback that is never called, and therefore not stored.
  template <typename CallbackFn>
  struct [[maybe_unused]] callback_type {
    template <typename Initializer>
    constexpr explicit callback_type(never_stop_token, Initializer&&) noexcept {}
  };

  /// Returns false.
  [[nodiscard]] static constexpr bool stop_requested() noexcept { return false; }
  /// Returns false.
  [[nodiscard]] static constexpr bool stop_possible() noexcept { return false; }
  friend constexpr bool operator==(const never_stop_token&,
                                   const never_stop_token&) noexcept = default;
};

/// The state of a stop request, which its tokens report. One word; no allocation.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: must outlive its callbacks, the uses of its tokens and the calls of its members.
/// Exception: the callback that is called last may destroy the source, as a coroutine does that
/// ends within the callback.
class inplace_stop_source {
 public:
  constexpr inplace_stop_source() noexcept = default;
  ~inplace_stop_source() {
    // relaxed: a source must not be used by other threads while it is destroyed.
    const word state = state_.load(std::memory_order_relaxed);
    if (notification_of(state) != nullptr) note_destruction();
    assert(first(state) == nullptr &&
           "a stop source was destroyed before a callback of its token: keep it until the wait, "
           "scope or callback that got the token has ended");
  }

  [[nodiscard]] constexpr inplace_stop_token get_token() const noexcept {
    return inplace_stop_token(this);
  }
  /// Returns true.
  [[nodiscard]] static constexpr bool stop_possible() noexcept { return true; }
  /// Returns whether a stop was requested: see inplace_stop_token::stop_requested().
  [[nodiscard]] bool stop_requested() const noexcept {
    // acquire: pairs with the release in request_stop(); makes the actions before the stop visible.
    const word state = state_.load(std::memory_order_acquire);
    return (state & (stopped | unlinked)) != 0 && ((state & stopped) != 0 || link_and_check_stop());
  }

  /// Requests the stop and calls the callbacks, the youngest first and without a lock. Returns true
  /// for the first call; later calls return false at once, even while callbacks run. O(callbacks).
  bool request_stop() noexcept;

 private:
  friend detail::stop_callback_base;
  friend detail::linked_stop_source;

  // A request_stop() that calls callbacks, on the stack of its thread.
  struct notification;

  // The state: the address of the first callback, and once a stop was requested that of the
  // notification, while one runs; combined with the following flags.
  using word = std::uintptr_t;
  static constexpr word locked = 1;
  static constexpr word stopped = 2;
  static constexpr word unlinked = 4;  // set in a linked_stop_source whose link has not been made
  static constexpr word flags = locked | stopped | unlinked;
  static_assert(alignof(detail::stop_callback_base) > flags);
  static detail::stop_callback_base* first(word state) noexcept {
    return (state & stopped) == 0 ? reinterpret_cast<detail::stop_callback_base*>(state & ~flags)
                                  : nullptr;
  }
  static notification* notification_of(word state) noexcept {
    return (state & stopped) != 0 ? reinterpret_cast<notification*>(state & ~flags) : nullptr;
  }
  static word to_word(const void* pointer) noexcept { return reinterpret_cast<word>(pointer); }

  constexpr explicit inplace_stop_source(word state) noexcept : state_(state) {}

  [[gnu::cold]] void note_destruction() noexcept;
  [[gnu::cold]] bool link_and_check_stop() const noexcept;
  word lock_unless(word blocking_bits, word added_bits) const noexcept;
  void unlock(word state) const noexcept;
  bool attach(detail::stop_callback_base& callback) const noexcept;
  void detach(detail::stop_callback_base& callback) const noexcept;

  mutable detail::atomic<word> state_{0};
};

inline bool inplace_stop_token::stop_requested() const noexcept {
  return source_ != nullptr && source_->stop_requested();
}

inline bool detail::stop_callback_base::attach(const inplace_stop_source& source) noexcept {
  return source.attach(*this);
}
inline void detail::stop_callback_base::detach(const inplace_stop_source& source) noexcept {
  source.detach(*this);
}

/// A registered callback. It calls a `CallbackFn` once if a stop is requested before its
/// destruction: within request_stop(), or within the constructor if the stop was requested earlier.
/// An exception from the function terminates the program.
///
/// Thread-safety: construction and destruction may happen on different threads.
/// Lifetime: cannot be moved; the source must outlive the callback.
/// Complexity: construction and destruction cost one uncontended compare-exchange each, or a branch
/// if the token has no source.
template <typename CallbackFn>
class inplace_stop_callback : private detail::stop_callback_base {
 public:
  using callback_type = CallbackFn;

  /// Registers a function that is constructed from `init`. Throws the exceptions of that
  /// construction.
  template <typename Initializer>
    requires std::constructible_from<CallbackFn, Initializer>
  explicit inplace_stop_callback(inplace_stop_token token, Initializer&& init) noexcept(
      std::is_nothrow_constructible_v<CallbackFn, Initializer>)
      : stop_callback_base(&call_function),
        source_(token.source_),
        function_(std::forward<Initializer>(init)) {
    // The check is here rather than in the class: the function may refer to a class that has this
    // callback as a member, and is incomplete until its end.
    static_assert(std::invocable<CallbackFn> && std::destructible<CallbackFn>);
    if (source_ == nullptr || attach(*source_)) return;
    source_ = nullptr;
    invoke();
  }

  /// Removes the callback. Waits while the function runs on another thread, and guarantees that it
  /// does not run afterwards. Does not wait if the function itself calls the destructor.
  ~inplace_stop_callback() {
    if (source_ != nullptr) detach(*source_);
  }

 private:
  static void call_function(stop_callback_base& self) noexcept {
    std::forward<CallbackFn>(static_cast<inplace_stop_callback&>(self).function_)();
  }

  const inplace_stop_source* source_;  // null: the callback is in no list
  [[no_unique_address]] CallbackFn function_;
};

template <typename CallbackFn>
inplace_stop_callback(inplace_stop_token, CallbackFn) -> inplace_stop_callback<CallbackFn>;

namespace detail {

/// A stop callback like inplace_stop_callback, but with a plain function, which finds the
/// callback's owner by the address of the callback, and with an owner that keeps the token. So it
/// has three words.
class bare_stop_callback : public stop_callback_base {
 public:
  /// Registers `function`. `token` has a source.
  bare_stop_callback(inplace_stop_token token,
                     void (*function)(stop_callback_base& self) noexcept) noexcept
      : stop_callback_base(function) {
    registered_token_.set(token);
    if (!attach(*token.source_)) invoke();
  }
  /// Removes the callback, as the destructor of inplace_stop_callback does. `token` is the token
  /// that the callback was registered with.
  void remove(inplace_stop_token token) noexcept {
    assert(!records_backtraces || registered_token_.get() == token);
    detach(*token.source_);
  }

 private:
  // The token that remove() must get.
  [[no_unique_address]] traced_field<inplace_stop_token> registered_token_;
};

/// A stop callback that passes the stop on to `source`.
struct request_stop_of {
  inplace_stop_source* source;
  void operator()() const noexcept { source->request_stop(); }
};

/// A source that also stops when its parent does, for work within other work. The link to the
/// parent costs a compare-exchange of the parent when it is made, and one when it is removed. It is
/// made when the source's tokens are first read or get a callback, so that work that never waits
/// does not need it. A parent that can never stop costs a branch. The source of the parent must
/// outlive this one.
class linked_stop_source : public inplace_stop_source {
 public:
  explicit linked_stop_source(inplace_stop_token parent) noexcept
      : inplace_stop_source(parent.stop_possible() ? unlinked : 0), parent_(parent) {}
  linked_stop_source& operator=(linked_stop_source&&) = delete;
  /// Destroys the source, which no other thread may use any more.
  ~linked_stop_source() {
    if (is_linked()) link_.~link();
  }

  /// Returns whether the link was made. Called when no other thread uses the source any more.
  bool is_linked() const noexcept {
    return is_claimed_.load(std::memory_order_relaxed);  // relaxed: no other thread uses the source
  }
  /// Returns whether `token` is the token of the parent.
  bool follows(inplace_stop_token token) const noexcept { return token == parent_; }

 private:
  friend inplace_stop_source;
  using link = inplace_stop_callback<request_stop_of>;

  // Returns the source, if it is a linked_stop_source without a link yet; else null.
  static linked_stop_source* find_unlinked(const inplace_stop_source* source) noexcept;
  void make_link() noexcept;

  const inplace_stop_token parent_;
  atomic<bool> is_claimed_{false};              // whether a thread makes, or has made, the link
  linked_stop_source* next_to_link_ = nullptr;  // the next source that make_link() must link
  union {
    link link_;
  };
};

}  // namespace detail
}  // namespace gyre
