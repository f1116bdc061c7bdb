// SPDX-License-Identifier: Apache-2.0
// move_only_function: std::move_only_function with a choice of the inline size: 24 bytes by
// default, 32 with a pointer, so that two fill a cache line. Larger callables live in the slab.
#pragma once

#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/detail/slab_object.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>

namespace gyre {

namespace detail {

/// Alignment of inline callables; callables of stricter alignment live in the slab.
inline constexpr std::size_t callable_alignment = 8;

/// Whether a callable of type F is kept inside a callable_storage<Bytes>.
template <typename F, std::size_t Bytes>
inline constexpr bool callable_fits = sizeof(F) <= Bytes && alignof(F) <= callable_alignment &&
                                      std::is_nothrow_move_constructible_v<F>;

/// Storage for one callable, inline or as a pointer into the slab. The owner passes the type of the
/// callable to each member.
template <std::size_t Bytes>
class callable_storage {
  static_assert(Bytes >= sizeof(void*) && Bytes % sizeof(std::uint64_t) == 0);

 public:
  /// Constructs an F. Throws exceptions of F's constructor, and std::bad_alloc; the storage then
  /// holds nothing.
  template <typename F, typename... Args>
  F& emplace(Args&&... args) noexcept(callable_fits<F, Bytes> &&
                                      std::is_nothrow_constructible_v<F, Args...>) {
    if constexpr (callable_fits<F, Bytes>) {
      return *::new (static_cast<void*>(bytes_)) F(std::forward<Args>(args)...);
    } else {
      auto* const box_of_callable = new slab_box<F>(std::forward<Args>(args)...);
      ::new (static_cast<void*>(bytes_)) slab_box<F>*(box_of_callable);
      return box_of_callable->object;
    }
  }
  /// Returns the F held.
  template <typename F>
  F& get() noexcept {
    if constexpr (callable_fits<F, Bytes>) {
      return *std::launder(reinterpret_cast<F*>(bytes_));
    } else {
      return box<F>().object;
    }
  }
  /// Returns the block of the F held. Requires that callable_fits is false.
  template <typename F>
  slab_box<F>& box() noexcept {
    return **std::launder(reinterpret_cast<slab_box<F>**>(bytes_));
  }
  /// Whether an F may be moved to other storage by copying the bytes, without destroying the
  /// source.
  template <typename F>
  static constexpr bool relocates_as_bytes =
      !callable_fits<F, Bytes> ||
      (std::is_trivially_move_constructible_v<F> && std::is_trivially_destructible_v<F>);

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
// A smaller callable fills only some of the words.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
  /// Moves the callable of `source`, which then holds nothing, into this empty storage.
  void copy_bytes(const callable_storage& source) noexcept {
    for (std::size_t offset = 0; offset < Bytes; offset += sizeof(std::uint64_t)) {
      std::uint64_t word;
      std::memcpy(&word, source.bytes_ + offset, sizeof(word));
      // This line prevents a merged wide load: a wide load of words just stored one by one waits
      // until they reach the cache (a failed store forwarding, some 12 cycles).
      __asm__("" : "+r"(word));
      std::memcpy(bytes_ + offset, &word, sizeof(word));
    }
  }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

 private:
  alignas(callable_alignment) std::byte bytes_[Bytes];
};

/// The operations on a stored callable of erased type. A null entry of `relocate` means
/// "copy the bytes", of `destroy` "nothing to do".
template <std::size_t Bytes, bool Noexcept, typename R, typename... Args>
struct callable_operations {
  using storage = callable_storage<Bytes>;

  R (*invoke)(storage&, Args&&...) noexcept(Noexcept);
  void (*relocate)(storage& target, storage& source) noexcept;
  void (*destroy)(storage&) noexcept;
  bool has_state;
};

/// Whether a coroutine that a call of an F has made may refer to the F: not to a function, nor to
/// an object without members.
template <typename F>
inline constexpr bool callable_has_state =
    !(std::is_empty_v<F> && std::is_trivially_destructible_v<F>) &&
    !(std::is_pointer_v<F> && std::is_function_v<std::remove_pointer_t<F>>);

/// The functions that relocate and destroy a stored F; null has the meaning that it has in
/// callable_operations.
template <typename F, std::size_t Bytes>
inline constexpr auto relocate_of = [] {
  using storage = callable_storage<Bytes>;
  void (*relocate)(storage& target, storage& source) noexcept = nullptr;
  if constexpr (!storage::template relocates_as_bytes<F>) {
    relocate = [](storage& target, storage& source) noexcept {
      F& object = source.template get<F>();
      target.template emplace<F>(std::move(object));
      object.~F();  // NOLINT: a moved-from object must still be destroyed
    };
  }
  return relocate;
}();
template <typename F, std::size_t Bytes>
inline constexpr auto destroy_of = [] {
  using storage = callable_storage<Bytes>;
  void (*destroy)(storage&) noexcept = nullptr;
  if constexpr (!callable_fits<F, Bytes> || !std::is_trivially_destructible_v<F>) {
    destroy = [](storage& target) noexcept {
      if constexpr (callable_fits<F, Bytes>) {
        target.template get<F>().~F();
      } else {
        delete &target.template box<F>();
      }
    };
  }
  return destroy;
}();

template <typename F, std::size_t Bytes, bool Noexcept, typename R, typename... Args>
inline constexpr callable_operations<Bytes, Noexcept, R, Args...> callable_operations_of{
    .invoke = [](callable_storage<Bytes>& target, Args&&... args) noexcept(Noexcept) -> R {
      return std::invoke_r<R>(target.template get<F>(), std::forward<Args>(args)...);
    },
    .relocate = relocate_of<F, Bytes>,
    .destroy = destroy_of<F, Bytes>,
    .has_state = callable_has_state<F>};

[[noreturn, gnu::noinline, gnu::cold]] inline void throw_bad_function_call() {
  throw std::bad_function_call{};
}

template <typename T>
inline constexpr bool is_move_only_function = false;

template <typename T>
inline constexpr bool is_in_place_type = false;
template <typename T>
inline constexpr bool is_in_place_type<std::in_place_type_t<T>> = true;

/// Returns whether converting `callable` must give an empty function.
template <typename F>
bool is_null_callable(const F& callable) noexcept {
  if constexpr (std::is_pointer_v<F> || std::is_member_pointer_v<F> || is_move_only_function<F>) {
    return callable == nullptr;
  } else {
    return false;
  }
}

}  // namespace detail

/// The class of which move_only_function is an alias.
template <std::size_t InlineBytes, bool Noexcept, typename R, typename... Args>
class basic_move_only_function {
  using storage = detail::callable_storage<InlineBytes>;
  using operations = detail::callable_operations<InlineBytes, Noexcept, R, Args...>;

  template <typename F>
  static constexpr bool is_callable = Noexcept ? std::is_nothrow_invocable_r_v<R, F&, Args...>
                                               : std::is_invocable_r_v<R, F&, Args...>;
  template <typename F>
  static constexpr bool is_convertible =
      !std::is_same_v<F, basic_move_only_function> && !std::is_same_v<F, std::nullptr_t> &&
      !detail::is_in_place_type<F>;

 public:
  using result_type = R;
  /// Makes an empty function.
  basic_move_only_function() noexcept = default;
  basic_move_only_function(std::nullptr_t) noexcept {}
  /// Holds a copy of `function`, or moves from it; is empty when `function` is a null pointer or an
  /// empty move_only_function. Throws exceptions of the construction, and std::bad_alloc.
  template <typename F>
    requires(is_convertible<std::remove_cvref_t<F>> && is_callable<std::decay_t<F>> &&
             std::is_constructible_v<std::decay_t<F>, F>)
  basic_move_only_function(F&& function) noexcept(
      detail::callable_fits<std::decay_t<F>, InlineBytes> &&
      std::is_nothrow_constructible_v<std::decay_t<F>, F>) {
    if constexpr (std::is_void_v<R>) {
      static_assert(
          !detail::lazy_awaitable<std::invoke_result_t<std::decay_t<F>&, Args...>>,
          "the callable only makes a coroutine, which would never run: use gyre::spawn(executor, "
          "coroutine()) in an ordinary lambda");
    }
    if (!detail::is_null_callable<std::decay_t<F>>(function)) {
      emplace<std::decay_t<F>>(std::forward<F>(function));
    }
  }
  /// Constructs an F in place from `inits`. Throws exceptions of F's constructor, and
  /// std::bad_alloc.
  template <typename F, typename... Inits>
    requires(is_callable<F> && std::is_constructible_v<F, Inits...>)
  explicit basic_move_only_function(std::in_place_type_t<F>, Inits&&... inits) {
    emplace<F>(std::forward<Inits>(inits)...);
  }
  template <typename F, typename U, typename... Inits>
    requires(is_callable<F> && std::is_constructible_v<F, std::initializer_list<U>&, Inits...>)
  explicit basic_move_only_function(std::in_place_type_t<F>, std::initializer_list<U> list,
                                    Inits&&... inits) {
    emplace<F>(list, std::forward<Inits>(inits)...);
  }
  /// Takes over the callable of `other`, which is left empty.
  basic_move_only_function(basic_move_only_function&& other) noexcept { take(other); }
  /// Destroys the callable held, after taking over that of `other`.
  basic_move_only_function& operator=(basic_move_only_function&& other) noexcept {
    if (this != &other) {
      // The old function's destructor may use this object.
      basic_move_only_function old_function{std::move(*this)};
      take(other);
    }
    return *this;
  }
  /// Destroys the callable held.
  basic_move_only_function& operator=(std::nullptr_t) noexcept {
    basic_move_only_function old_function{std::move(*this)};
    return *this;
  }

  ~basic_move_only_function() {
    if (operations_ != nullptr && operations_->destroy != nullptr) operations_->destroy(storage_);
  }
  /// Calls the callable, which must not destroy or assign to this function meanwhile. An empty
  /// function throws std::bad_function_call (terminates if the signature is noexcept), where the
  /// standard leaves the behaviour undefined: the check costs a branch that is never taken.
  R operator()(Args... args) noexcept(Noexcept) {
    if (operations_ == nullptr) [[unlikely]]
      detail::throw_bad_function_call();
    return operations_->invoke(storage_, std::forward<Args>(args)...);
  }
  /// Returns whether a callable is held.
  [[nodiscard]] explicit operator bool() const noexcept { return operations_ != nullptr; }
  friend bool operator==(const basic_move_only_function& function, std::nullptr_t) noexcept {
    return !function;
  }
  /// Returns whether the callable must outlive the coroutines that its calls make: false for a
  /// function, and for an object without members.
  [[nodiscard]] bool has_state() const noexcept {
    return operations_ != nullptr && operations_->has_state;
  }

  void swap(basic_move_only_function& other) noexcept {
    if (this == &other) return;
    basic_move_only_function old_function{std::move(other)};
    other.take(*this);
    take(old_function);
  }
  friend void swap(basic_move_only_function& left, basic_move_only_function& right) noexcept {
    left.swap(right);
  }

 private:
  template <typename F, typename... Inits>
  void emplace(Inits&&... inits) {
    static_assert(std::is_same_v<F, std::decay_t<F>>, "name the type of an object");
    storage_.template emplace<F>(std::forward<Inits>(inits)...);
    operations_ = &detail::callable_operations_of<F, InlineBytes, Noexcept, R, Args...>;
  }

  // Takes the other object's callable. This function must be empty.
  void take(basic_move_only_function& other) noexcept {
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_ == nullptr) return;
    if (operations_->relocate != nullptr) {
      operations_->relocate(storage_, other.storage_);
    } else {
      storage_.copy_bytes(other.storage_);
    }
  }

  const operations* operations_ = nullptr;
  storage storage_;
};

namespace detail {

template <std::size_t InlineBytes, bool Noexcept, typename R, typename... Args>
inline constexpr bool
    is_move_only_function<basic_move_only_function<InlineBytes, Noexcept, R, Args...>> = true;

template <typename Signature, std::size_t InlineBytes>
struct function_for;
template <typename R, typename... Args, std::size_t InlineBytes>
struct function_for<R(Args...), InlineBytes> {
  using type = basic_move_only_function<InlineBytes, false, R, Args...>;
};
template <typename R, typename... Args, std::size_t InlineBytes>
struct function_for<R(Args...) noexcept, InlineBytes> {
  using type = basic_move_only_function<InlineBytes, true, R, Args...>;
};

}  // namespace detail

/// A move-only owner of one callable with signature R(Args...) or R(Args...) noexcept; const and
/// reference-qualified signatures are not supported. The members are those of
/// std::move_only_function (P0288), and calling an empty one throws std::bad_function_call. A
/// callable of at most InlineBytes bytes (a multiple of 8) and at most alignment 8 whose move
/// cannot throw is held inline; any other lives in the slab (slab.hpp).
///
/// Thread-safety: calls may overlap if calls of the callable may; otherwise any thread, one at a
/// time.
/// Lifetime: must not be destroyed or assigned to by its own callable.
/// Complexity: a call is one indirect call; a move copies InlineBytes, or is one indirect call if
/// an inline callable is not trivial.
template <typename Signature, std::size_t InlineBytes = 24>
using move_only_function = typename detail::function_for<Signature, InlineBytes>::type;

static_assert(sizeof(move_only_function<void()>) == 32);

}  // namespace gyre
