// SPDX-License-Identifier: Apache-2.0
// copy_all_rows: rows that are copied into a table in binary format.
#pragma once

#include <gyre/engines/postgres/detail/bound_arguments.hpp>
#include <gyre/engines/postgres/detail/copy_request.hpp>
#include <gyre/engines/postgres/detail/query_runner.hpp>
#include <gyre/engines/postgres/oid.hpp>
#include <gyre/engines/postgres/row_traits.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/task/async_generator.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre::postgres::detail {

template <class T>
concept row_to_copy = requires(const T& row) {
  row_traits<T>::column_count;
  row_traits<T>::for_each(row, [](const auto&) {});
};

template <class T>
struct generated_row;
template <class T>
struct generated_row<async_generator<T>> {
  using type = std::remove_cvref_t<T>;
};

template <class T>
concept generator_to_copy = requires { typename generated_row<std::remove_cvref_t<T>>::type; } &&
                            row_to_copy<typename generated_row<std::remove_cvref_t<T>>::type>;
template <class T>
concept range_to_copy =
    std::ranges::input_range<T> && row_to_copy<std::remove_cvref_t<std::ranges::range_value_t<T>>>;
template <class T>
concept rows_to_copy = generator_to_copy<T> || range_to_copy<T>;

/// A COPY into a table in binary format.
class row_copy {
 public:
  /// Finds the types of the columns, and begins the COPY.
  static task<std::unique_ptr<row_copy>> begin(shared_runner runner, std::string target,
                                               std::size_t row_size);

  template <class Row>
  void add(const Row& row) {
    begin_row();
    argument_sequence fields(bytes_, types_, argument_writer::write_target::binary_field);
    row_traits<Row>::for_each(row, [&](const auto& column) { fields.add(column); });
  }
  /// Whether bytes should be sent before another row is added.
  bool is_full() const noexcept { return bytes_.size() >= full_size; }
  task<> send();
  task<std::uint64_t> finish();

 private:
  static constexpr std::size_t full_size = 64 * 1024;

  void begin_row();

  std::vector<oid> types_;
  std::shared_ptr<copy_request> request_;
  io::buffer bytes_;
};

/// The form in which a call keeps its rows: temporaries by value, others by reference.
template <class Rows>
using kept_rows =
    std::conditional_t<std::is_lvalue_reference_v<Rows>, Rows, std::remove_cvref_t<Rows>>;

template <class Rows>
struct copied_row {
  using type = std::remove_cvref_t<std::ranges::range_value_t<Rows>>;
};
template <generator_to_copy Rows>
struct copied_row<Rows> {
  using type = typename generated_row<std::remove_cvref_t<Rows>>::type;
};

template <class Rows>
task<std::uint64_t> copy_all_rows(shared_runner runner, std::string target, kept_rows<Rows> rows) {
  using row = typename copied_row<Rows>::type;
  require_runner(runner);
  auto begin_task =
      row_copy::begin(std::move(runner), std::move(target), row_traits<row>::column_count);
  const std::unique_ptr<row_copy> copy = co_await std::move(begin_task);
  if constexpr (generator_to_copy<Rows>) {
    while (const auto* values = co_await rows.next()) {
      copy->add<row>(*values);
      if (!copy->is_full()) continue;
      task<> send_task = copy->send();
      co_await std::move(send_task);
    }
  } else {
    for (const row& values : rows) {
      copy->add<row>(values);
      if (!copy->is_full()) continue;
      task<> send_task = copy->send();
      co_await std::move(send_task);
    }
  }
  task<std::uint64_t> finish_task = copy->finish();
  co_return co_await std::move(finish_task);
}

}  // namespace gyre::postgres::detail
