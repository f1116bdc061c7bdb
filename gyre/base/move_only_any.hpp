// SPDX-License-Identifier: Apache-2.0
// move_only_any: a std::any of 16 bytes for values that can be moved but not copied.
//
//     gyre::move_only_any attached = std::make_unique<int>(7);
//     if (auto* number = attached.get_if<std::unique_ptr<int>>()) use(**number);
#pragma once

#include <gyre/base/move_only_function.hpp>

#include <any>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <typeinfo>
#include <utility>

namespace gyre {

namespace detail {

/// The operations on a stored value of erased type; null entries have the meaning that they have in
/// callable_operations.
template <std::size_t Bytes>
struct any_operations {
  using storage = callable_storage<Bytes>;

  const std::type_info* type;
  void (*relocate)(storage& target, storage& source) noexcept;
  void (*destroy)(storage&) noexcept;
};

template <typename T, std::size_t Bytes>
inline constexpr any_operations<Bytes> any_operations_of{
    .type = &typeid(T), .relocate = relocate_of<T, Bytes>, .destroy = destroy_of<T, Bytes>};

}  // namespace detail

/// An owner of at most one value of any type that can be moved, or constructed in place. The
/// members are those of std::any, without copying. A value of at most 8 bytes and at most alignment
/// 8 whose move cannot throw, such as a std::unique_ptr, is held inline; any other lives in the
/// slab (slab.hpp).
///
/// Thread-safety: any thread, one at a time.
/// Lifetime: a reference to the value is valid until the value is replaced, and an inline value is
/// moved when the owner is.
/// Errors: any_cast throws std::bad_any_cast for another type; get_if() returns null.
/// Complexity: allocates from the slab unless the value is held inline; a move never allocates.
class move_only_any {
  static constexpr std::size_t inline_bytes = 8;
  using storage = detail::callable_storage<inline_bytes>;
  using operations = detail::any_operations<inline_bytes>;

  template <typename T>
  static constexpr bool holds = !std::is_same_v<T, move_only_any> && !detail::is_in_place_type<T>;

 public:
  /// Makes an empty object.
  move_only_any() noexcept = default;
  /// Holds a copy of `value`, or moves from it. Throws exceptions of the construction, and
  /// std::bad_alloc.
  template <typename T>
    requires(holds<std::decay_t<T>> && std::is_constructible_v<std::decay_t<T>, T>)
  move_only_any(T&& value) {
    construct<std::decay_t<T>>(std::forward<T>(value));
  }
  /// Constructs a T in place from `inits`.
  template <typename T, typename... Inits>
    requires(std::is_constructible_v<std::decay_t<T>, Inits...>)
  explicit move_only_any(std::in_place_type_t<T>, Inits&&... inits) {
    construct<std::decay_t<T>>(std::forward<Inits>(inits)...);
  }
  /// Takes over the value of `other`, which is left empty.
  move_only_any(move_only_any&& other) noexcept { take(other); }
  /// Destroys the value held, after taking over that of `other`.
  move_only_any& operator=(move_only_any&& other) noexcept {
    if (this != &other) {
      // The old value's destructor may use this object.
      const move_only_any old_value(std::move(*this));
      take(other);
    }
    return *this;
  }
  /// Does `*this = move_only_any(value)`: keeps the value held if an exception is thrown.
  template <typename T>
    requires(holds<std::decay_t<T>> && std::is_constructible_v<std::decay_t<T>, T>)
  move_only_any& operator=(T&& value) {
    return *this = move_only_any(std::forward<T>(value));
  }
  ~move_only_any() {
    if (operations_ != nullptr && operations_->destroy != nullptr) operations_->destroy(storage_);
  }

  /// Destroys the value held, and constructs a T from `inits`. The object is empty after an
  /// exception.
  template <typename T, typename... Inits>
    requires(std::is_constructible_v<std::decay_t<T>, Inits...>)
  std::decay_t<T>& emplace(Inits&&... inits) {
    reset();
    return construct<std::decay_t<T>>(std::forward<Inits>(inits)...);
  }
  template <typename T, typename U, typename... Inits>
    requires(std::is_constructible_v<std::decay_t<T>, std::initializer_list<U>&, Inits...>)
  std::decay_t<T>& emplace(std::initializer_list<U> list, Inits&&... inits) {
    reset();
    return construct<std::decay_t<T>>(list, std::forward<Inits>(inits)...);
  }
  /// Destroys the value held.
  void reset() noexcept { const move_only_any old_value(std::move(*this)); }
  void swap(move_only_any& other) noexcept { std::swap(*this, other); }
  friend void swap(move_only_any& left, move_only_any& right) noexcept { left.swap(right); }

  [[nodiscard]] bool has_value() const noexcept { return operations_ != nullptr; }
  /// Returns the type of the value; typeid(void) if there is none.
  [[nodiscard]] const std::type_info& type() const noexcept {
    return operations_ != nullptr ? *operations_->type : typeid(void);
  }
  /// Returns a pointer to the value; null if there is none or its type is not T.
  template <typename T>
  [[nodiscard]] T* get_if() noexcept {
    static_assert(std::is_object_v<T>, "name the type of an object");
    using value = std::remove_cv_t<T>;
    if (operations_ == nullptr || *operations_->type != typeid(value)) return nullptr;
    return &storage_.template get<value>();
  }
  template <typename T>
  [[nodiscard]] const T* get_if() const noexcept {
    return const_cast<move_only_any&>(*this).get_if<const T>();  // get_if() changes nothing
  }

 private:
  template <typename T, typename... Inits>
  T& construct(Inits&&... inits) {
    T& value = storage_.template emplace<T>(std::forward<Inits>(inits)...);
    operations_ = &detail::any_operations_of<T, inline_bytes>;
    return value;
  }
  // Takes the other object's value. This object must be empty.
  void take(move_only_any& other) noexcept {
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

static_assert(sizeof(move_only_any) == 16);

/// Returns a pointer to the value like std::any_cast; null if the type of the value is not T.
template <typename T>
[[nodiscard]] T* any_cast(move_only_any* operand) noexcept {
  return operand != nullptr ? operand->get_if<T>() : nullptr;
}
template <typename T>
[[nodiscard]] const T* any_cast(const move_only_any* operand) noexcept {
  return operand != nullptr ? operand->get_if<T>() : nullptr;
}
/// Returns the value like std::any_cast; T may be a reference. Throws std::bad_any_cast if the type
/// of the value is not T.
template <typename T>
[[nodiscard]] T any_cast(move_only_any& operand) {
  auto* const value = operand.get_if<std::remove_cvref_t<T>>();
  if (value == nullptr) throw std::bad_any_cast();
  return static_cast<T>(*value);
}
template <typename T>
[[nodiscard]] T any_cast(const move_only_any& operand) {
  const auto* const value = operand.get_if<std::remove_cvref_t<T>>();
  if (value == nullptr) throw std::bad_any_cast();
  return static_cast<T>(*value);
}
template <typename T>
[[nodiscard]] T any_cast(move_only_any&& operand) {
  auto* const value = operand.get_if<std::remove_cvref_t<T>>();
  if (value == nullptr) throw std::bad_any_cast();
  return static_cast<T>(std::move(*value));
}

}  // namespace gyre
