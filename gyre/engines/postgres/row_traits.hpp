// SPDX-License-Identifier: Apache-2.0
// row_traits: which types a row of a result of PostgreSQL can be read as.
//
// | type | columns |
// |---|---|
// | a type of column_traits | the only one |
// | std::tuple, std::pair | its members, in their order |
// | a struct without constructors and bases, of up to 32 members | its members, in their order |
// | a class with row_members | the members that are listed |
//
// The number of columns must be that of the members; names do not matter.
#pragma once

#include <gyre/engines/postgres/column_traits.hpp>
#include <gyre/engines/postgres/column_value.hpp>
#include <gyre/engines/postgres/detail/aggregate_fields.hpp>
#include <gyre/engines/postgres/detail/prepared_statement.hpp>
#include <gyre/engines/postgres/detail/row_view.hpp>

#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gyre::postgres {

/// The members of a class in the order of the columns, for classes that are not plain structs:
///
///     template <>
///     inline constexpr auto gyre::postgres::row_members<account> =
///         std::tuple(&account::id, &account::owner);
template <class T>
inline constexpr std::nullptr_t row_members = nullptr;

/// The values of a row in their order.
///
/// Lifetime: within row_traits::read().
class column_cursor {
 public:
  column_cursor(const detail::row_view& row,
                std::span<const detail::column_description> columns) noexcept
      : row_(row), columns_(columns) {}

  /// Returns the next value. Callers call it once for each column.
  [[nodiscard]] column_value next() noexcept {
    const detail::column_description& column = columns_[index_++];
    const detail::field_view field = row_.next();
    return {{index_, column.name, column.type, column.is_binary}, field.is_null, field.bytes};
  }
  template <column T>
  [[nodiscard]] T read() {
    return column_traits<T>::read(next());
  }

 private:
  detail::row_reader row_;
  std::span<const detail::column_description> columns_;
  std::size_t index_ = 0;
};

/// The way in which a row is read, and written for a COPY: `static constexpr std::size_t
/// column_count`, `static Row read(column_cursor& columns)`, and `static void for_each(const Row&
/// row, const auto& visit)`, which calls visit() with each member.
template <class Row>
struct row_traits;

/// A type that a row can be read as: row_traits know how to read it.
template <class T>
concept row = requires(column_cursor& columns) {
  { row_traits<T>::column_count } -> std::convertible_to<std::size_t>;
  { row_traits<T>::read(columns) } -> std::same_as<T>;
};

namespace detail {

template <class T>
concept listed_row = !std::same_as<std::remove_cvref_t<decltype(row_members<T>)>, std::nullptr_t>;
template <class T>
concept aggregate_row = std::is_aggregate_v<T> && !std::is_array_v<T> && std::is_class_v<T> &&
                        !column<T> && !argument<T> && !listed_row<T>;

template <class Tuple>
struct members_of;
template <class... Members>
struct members_of<std::tuple<Members...>> {
  static constexpr std::size_t column_count = sizeof...(Members);

  // A braced initialiser evaluates its parts in the order of the columns.
  template <class Row>
  static Row read(column_cursor& columns) {
    return Row{column_traits<Members>::read(columns.next())...};
  }
};

template <class Class, class Member>
Member member_type(Member Class::*);

}  // namespace detail

template <class T>
  requires(column<T> || argument<T>)
struct row_traits<T> {
  static constexpr std::size_t column_count = 1;

  static T read(column_cursor& columns)
    requires column<T>
  {
    return columns.template read<T>();
  }
  static void for_each(const T& row, const auto& visit) { visit(row); }
};

template <class... Ts>
struct row_traits<std::tuple<Ts...>> {
  static constexpr std::size_t column_count = sizeof...(Ts);

  static std::tuple<Ts...> read(column_cursor& columns)
    requires(column<Ts> && ...)
  {
    return std::tuple<Ts...>{column_traits<Ts>::read(columns.next())...};
  }
  static void for_each(const std::tuple<Ts...>& row, const auto& visit) {
    std::apply([&](const Ts&... columns) { (visit(columns), ...); }, row);
  }
};

template <class First, class Second>
struct row_traits<std::pair<First, Second>> {
  static constexpr std::size_t column_count = 2;

  static std::pair<First, Second> read(column_cursor& columns)
    requires(column<First> && column<Second>)
  {
    return std::pair<First, Second>{column_traits<First>::read(columns.next()),
                                    column_traits<Second>::read(columns.next())};
  }
  static void for_each(const std::pair<First, Second>& row, const auto& visit) {
    visit(row.first);
    visit(row.second);
  }
};

template <detail::aggregate_row T>
struct row_traits<T> {
  static_assert(detail::field_count<T> > 0 && detail::field_count<T> <= detail::max_fields,
                "gyre::postgres: a struct that is read as a row has 1 to 32 members; "
                "specialise row_members for others");
  using members = detail::members_of<detail::field_types<T>>;

  static constexpr std::size_t column_count = members::column_count;

  static T read(column_cursor& columns) { return members::template read<T>(columns); }
  static void for_each(const T& row, const auto& visit) { detail::visit_fields(row, visit); }
};

template <detail::listed_row T>
struct row_traits<T> {
  static constexpr std::size_t column_count =
      std::tuple_size_v<std::remove_cvref_t<decltype(row_members<T>)>>;

  static T read(column_cursor& columns) {
    T row;
    std::apply(
        [&](auto... member) {
          ((row.*member =
                column_traits<std::remove_cvref_t<decltype(row.*member)>>::read(columns.next())),
           ...);
        },
        row_members<T>);
    return row;
  }
  static void for_each(const T& row, const auto& visit) {
    std::apply([&](auto... member) { (visit(row.*member), ...); }, row_members<T>);
  }
};

}  // namespace gyre::postgres
