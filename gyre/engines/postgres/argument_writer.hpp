// SPDX-License-Identifier: Apache-2.0
// argument_writer: where an argument of a statement is written, in the format of its type.
#pragma once

#include <gyre/base/endian.hpp>
#include <gyre/engines/postgres/oid.hpp>
#include <gyre/io/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace gyre::postgres {

/// Takes one value for a parameter, or for a column of a COPY. The server has reported the type of
/// the parameter; the value can be written in that type's binary format, or as the text that one
/// would write in a quoted literal.
///
/// Errors: std::system_error (errc::out_of_range, unsupported_type), which name the argument;
/// std::bad_alloc.
class argument_writer {
 public:
  /// Returns the type that the server expects.
  [[nodiscard]] oid type() const noexcept { return type_; }

  // --- One of these ---

  /// Writes NULL.
  void write_null();
  /// Writes the value in text format. Bytes of texts stay as they are for types whose two formats
  /// are the same.
  void write_text(std::string_view text);
  /// Writes the value in the binary format of type().
  void write_binary(std::span<const std::byte> bytes);
  template <io::network_integer T>
  void write_binary(T number) {
    std::byte bytes[sizeof(T)];
    store_be(bytes, static_cast<std::make_unsigned_t<T>>(number));
    write_binary(std::span<const std::byte>(bytes));
  }

  // --- Errors of values that do not fit the type ---

  /// Throws errc::out_of_range: the type of the server has no such value.
  [[noreturn, gnu::cold]] void throw_out_of_range(std::string_view value) const;
  /// `name`: the C++ type's, such as "a bool".
  [[noreturn, gnu::cold]] void throw_unsupported(std::string_view name) const;

  /// Writes an array of one dimension: `write(elements)` writes each element to the writer
  /// `elements`, and may be called twice.
  template <class Write>
  void write_array(std::size_t count, Write write) {
    argument_writer elements = begin_array(count);
    write(elements);
    if (end_array(elements)) return;
    argument_writer texts = begin_text_array();
    write(texts);
    end_text_array(texts);
  }

  // --- For the statement ---

  /// The place of the value, which decides on its format.
  enum class write_target : std::uint8_t {
    parameter,     ///< a parameter of a statement, whose format can be chosen
    binary_field,  ///< a field of a COPY in binary format
    element,       ///< an element of an array in binary format
    text_element,  ///< an element of an array in text format
  };

  /// `format_position`: where in the output the code of a parameter's format is. `number`: of the
  /// argument, counted from 1.
  argument_writer(io::buffer& output, oid type, std::size_t number, write_target target,
                  std::size_t format_position = 0) noexcept
      : output_(output),
        type_(type),
        number_(number),
        target_(target),
        format_position_(format_position) {}
  /// Returns the number of values that were written.
  [[nodiscard]] std::size_t written() const noexcept { return count_; }

 private:
  argument_writer begin_array(std::size_t count);
  // Returns whether all elements could be written; if not, removes the array from the output.
  bool end_array(const argument_writer& elements);
  argument_writer begin_text_array();
  void end_text_array(const argument_writer& elements);

  void append_length_prefixed(std::span<const std::byte> bytes);
  void append_text_in_binary(std::string_view text);
  void append_quoted(std::string_view text);
  void begin_text_element();
  void set_format(std::uint16_t format) noexcept;
  void set_size(std::size_t position) const;
  std::string describe() const;

  io::buffer& output_;
  oid type_;
  std::size_t number_;
  write_target target_;
  std::size_t format_position_;
  std::size_t begin_ = 0;  // the position of the array's size in the output
  std::size_t count_ = 0;
  bool has_null_ = false;
  bool is_refused_ = false;  // whether an element could not be written in this format
};

}  // namespace gyre::postgres
