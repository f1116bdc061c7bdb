// SPDX-License-Identifier: Apache-2.0
// argument_list: the arguments of a statement, whatever their types are.
#pragma once

#include <gyre/engines/postgres/argument_traits.hpp>
#include <gyre/engines/postgres/argument_writer.hpp>
#include <gyre/engines/postgres/oid.hpp>
#include <gyre/io/buffer.hpp>

#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gyre::postgres::detail {

/// Writes the arguments of a statement, or the fields of a row of a COPY, one after the other.
class argument_sequence {
 public:
  /// `types`: of as many values as are added. `formats`: where the codes of the formats are.
  argument_sequence(io::buffer& output, std::span<const oid> types,
                    argument_writer::write_target target, std::size_t formats = 0) noexcept
      : output_(output), types_(types), target_(target), formats_(formats) {}

  template <class T>
  void add(const T& value) {
    argument_writer writer = next();
    argument_traits<std::remove_cvref_t<T>>::write(writer, value);
    if (writer.written() != 1) [[unlikely]]
      throw_not_one(writer.written());
  }

 private:
  argument_writer next() noexcept;
  [[noreturn, gnu::cold]] static void throw_not_one(std::size_t count);

  io::buffer& output_;
  std::span<const oid> types_;
  const argument_writer::write_target target_;
  const std::size_t formats_;
  std::size_t index_ = 0;
};

class argument_list {
 public:
  argument_list() noexcept = default;
  argument_list& operator=(argument_list&&) = delete;

  virtual std::size_t size() const noexcept = 0;
  /// Appends the formats and values for parameters of `types`, as a Bind message has them. Throws
  /// std::system_error (errc::argument_count, and those of argument_writer), std::bad_alloc.
  void write(io::buffer& output, std::span<const oid> types) const;

 protected:
  ~argument_list() = default;

 private:
  virtual void add_all(argument_sequence& sequence) const = 0;
};

/// The arguments of a call, as keep() keeps them.
template <class... Kept>
class bound_arguments final : public argument_list {
 public:
  explicit bound_arguments(const std::tuple<Kept...>& values) noexcept : values_(values) {}

  std::size_t size() const noexcept override { return sizeof...(Kept); }

 private:
  void add_all(argument_sequence& sequence) const override {
    std::apply([&](const auto&... values) { (sequence.add(values), ...); }, values_);
  }

  const std::tuple<Kept...>& values_;
};

}  // namespace gyre::postgres::detail
