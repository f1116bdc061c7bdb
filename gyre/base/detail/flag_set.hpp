// SPDX-License-Identifier: Apache-2.0
// flag_set: a set of an enumeration's flags, in an integer of the enumeration's size.
//
//     enum class permission : std::uint8_t { read = 1, write = 2 };
//     flag_set<permission> granted = permission::read;
//     granted.insert(permission::write);
//     if (granted.has(permission::read)) …
#pragma once

#include <type_traits>

namespace gyre::detail {

/// A set of values of `Enum`, whose underlying type is unsigned and each of whose values is a
/// single bit.
template <class Enum>
class flag_set {
  using integer = std::underlying_type_t<Enum>;
  static_assert(std::is_unsigned_v<integer>);

 public:
  constexpr flag_set() noexcept = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a flag is a set of one
  constexpr flag_set(Enum flag) noexcept : bits_(static_cast<integer>(flag)) {}

  constexpr bool empty() const noexcept { return bits_ == 0; }
  constexpr bool has(Enum flag) const noexcept { return has_any(flag); }
  constexpr bool has_any(flag_set flags) const noexcept { return (bits_ & flags.bits_) != 0; }

  constexpr void insert(flag_set flags) noexcept { bits_ |= flags.bits_; }
  constexpr void erase(flag_set flags) noexcept { bits_ &= static_cast<integer>(~flags.bits_); }
  constexpr void clear() noexcept { bits_ = 0; }

  friend constexpr flag_set operator|(flag_set left, flag_set right) noexcept {
    left.insert(right);
    return left;
  }
  /// Returns the flags of `left` that are not in `right`.
  friend constexpr flag_set operator-(flag_set left, flag_set right) noexcept {
    left.erase(right);
    return left;
  }
  friend constexpr bool operator==(flag_set, flag_set) noexcept = default;

 private:
  integer bits_ = 0;
};

}  // namespace gyre::detail
