// SPDX-License-Identifier: Apache-2.0
// The members of plain structs, which the language can bind but not list.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gyre::postgres::detail {

inline constexpr std::size_t max_fields = 32;

/// Converts to the type of any member, to find out how many there are.
struct any_field {
  template <class T>
  operator T() const;
};

template <class T, std::size_t... Indices>
constexpr bool has_fields(std::index_sequence<Indices...>) {
  return requires { T{(static_cast<void>(Indices), std::declval<any_field>())...}; };
}

template <class T, std::size_t Count = max_fields + 1>
constexpr std::size_t count_fields() {
  if constexpr (Count == 0) {
    return 0;
  } else if constexpr (has_fields<T>(std::make_index_sequence<Count>())) {
    return Count;
  } else {
    return count_fields<T, Count - 1>();
  }
}

/// The number of members; max_fields + 1: more than that.
template <class T>
inline constexpr std::size_t field_count = count_fields<T>();

/// Calls `use(members...)` with references to the members of a struct.
template <class T, class Use>
decltype(auto) with_fields(T& row, const Use& use) {
  constexpr std::size_t count = field_count<std::remove_const_t<T>>;
  if constexpr (count == 1) {
    auto& [f1] = row;
    return use(f1);
  } else if constexpr (count == 2) {
    auto& [f1, f2] = row;
    return use(f1, f2);
  } else if constexpr (count == 3) {
    auto& [f1, f2, f3] = row;
    return use(f1, f2, f3);
  } else if constexpr (count == 4) {
    auto& [f1, f2, f3, f4] = row;
    return use(f1, f2, f3, f4);
  } else if constexpr (count == 5) {
    auto& [f1, f2, f3, f4, f5] = row;
    return use(f1, f2, f3, f4, f5);
  } else if constexpr (count == 6) {
    auto& [f1, f2, f3, f4, f5, f6] = row;
    return use(f1, f2, f3, f4, f5, f6);
  } else if constexpr (count == 7) {
    auto& [f1, f2, f3, f4, f5, f6, f7] = row;
    return use(f1, f2, f3, f4, f5, f6, f7);
  } else if constexpr (count == 8) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8);
  } else if constexpr (count == 9) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9);
  } else if constexpr (count == 10) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10);
  } else if constexpr (count == 11) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11);
  } else if constexpr (count == 12) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12);
  } else if constexpr (count == 13) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13);
  } else if constexpr (count == 14) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14);
  } else if constexpr (count == 15) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15);
  } else if constexpr (count == 16) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16);
  } else if constexpr (count == 17) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17);
  } else if constexpr (count == 18) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18);
  } else if constexpr (count == 19) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19] =
        row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18,
               f19);
  } else if constexpr (count == 20) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20);
  } else if constexpr (count == 21) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21);
  } else if constexpr (count == 22) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21, f22] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22);
  } else if constexpr (count == 23) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21, f22, f23] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23);
  } else if constexpr (count == 24) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21, f22, f23, f24] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24);
  } else if constexpr (count == 25) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21, f22, f23, f24, f25] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25);
  } else if constexpr (count == 26) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21, f22, f23, f24, f25, f26] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26);
  } else if constexpr (count == 27) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21, f22, f23, f24, f25, f26, f27] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27);
  } else if constexpr (count == 28) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21, f22, f23, f24, f25, f26, f27, f28] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28);
  } else if constexpr (count == 29) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21, f22, f23, f24, f25, f26, f27, f28, f29] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29);
  } else if constexpr (count == 30) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30);
  } else if constexpr (count == 31) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31);
  } else if constexpr (count == 32) {
    auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32] = row;
    return use(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32);
  }
}

/// Tells the types of members; not a lambda, which GCC 12 takes for a dependent type here.
struct list_types {
  template <class... Fields>
  std::type_identity<std::tuple<Fields...>> operator()(Fields&...) const {
    return {};
  }
};

/// The std::tuple of the members' types.
template <class T>
using field_types =
    typename decltype(with_fields(std::declval<T&>(), std::declval<list_types>()))::type;

template <class T, class Visit>
void visit_fields(const T& row, const Visit& visit) {
  with_fields(row, [&](const auto&... fields) { (visit(fields), ...); });
}

}  // namespace gyre::postgres::detail
