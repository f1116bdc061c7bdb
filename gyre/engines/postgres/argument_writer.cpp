// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/argument_writer.hpp>

#include <gyre/engines/postgres/detail/numeric_codec.hpp>
#include <gyre/engines/postgres/error.hpp>

#include <algorithm>
#include <limits>
#include <string>

namespace gyre::postgres {
namespace {

constexpr std::uint16_t binary_format = 1;
constexpr std::int32_t null_size = -1;
constexpr std::byte jsonb_version{1};

}  // namespace

void argument_writer::write_null() {
  has_null_ = true;
  if (target_ == write_target::text_element) {
    begin_text_element();
    return output_.append(std::string_view("NULL"));
  }
  output_.append(null_size);
  ++count_;
}

void argument_writer::write_text(std::string_view text) {
  switch (target_) {
    case write_target::parameter: return append_length_prefixed(std::as_bytes(std::span(text)));
    case write_target::text_element: begin_text_element(); return append_quoted(text);
    case write_target::binary_field:
    case write_target::element: return append_text_in_binary(text);
  }
}

void argument_writer::write_binary(std::span<const std::byte> bytes) {
  if (target_ == write_target::text_element) {
    is_refused_ = true;
    return;
  }
  set_format(binary_format);
  append_length_prefixed(bytes);
}

void argument_writer::append_text_in_binary(std::string_view text) {
  if (detail::is_text_type(type_)) return append_length_prefixed(std::as_bytes(std::span(text)));
  const std::size_t position = output_.size();
  output_.append(std::int32_t{0});
  bool is_written = false;
  if (type_ == oids::jsonb) {
    output_.append(std::span(&jsonb_version, 1));
    output_.append(text);
    is_written = true;
  } else if (type_ == oids::numeric && detail::is_numeric(text)) {
    is_written = detail::append_numeric(output_, text);
  }
  if (is_written) {
    ++count_;
    return set_size(position);
  }
  output_.drop_last(output_.size() - position);
  is_refused_ = true;
  if (target_ == write_target::binary_field) throw_unsupported("a text");
}

void argument_writer::append_length_prefixed(std::span<const std::byte> bytes) {
  const std::size_t position = output_.size();
  output_.append(std::int32_t{0});
  output_.append(bytes);
  set_size(position);
  ++count_;
}

void argument_writer::begin_text_element() {
  if (count_++ > 0) output_.append(std::string_view(","));
}

void argument_writer::append_quoted(std::string_view text) {
  output_.append(std::string_view("\""));
  while (!text.empty()) {
    const std::size_t plain_size = std::min(text.find_first_of("\"\\"), text.size());
    output_.append(text.substr(0, plain_size));
    text.remove_prefix(plain_size);
    if (text.empty()) break;
    output_.append(std::string_view("\\"));
    output_.append(text.substr(0, 1));
    text.remove_prefix(1);
  }
  output_.append(std::string_view("\""));
}

void argument_writer::set_format(std::uint16_t format) noexcept {
  if (target_ != write_target::parameter) return;
  store_be(output_.mutable_bytes().data() + format_position_, format);
}

void argument_writer::set_size(std::size_t position) const {
  const std::size_t size = output_.size() - position - sizeof(std::int32_t);
  if (size > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw_out_of_range(std::to_string(size) + " bytes");
  }
  store_be(output_.mutable_bytes().data() + position, static_cast<std::uint32_t>(size));
}

// --- Arrays ---

argument_writer argument_writer::begin_array(std::size_t count) {
  if (target_ == write_target::element || target_ == write_target::text_element) {
    throw_unsupported("an array within an array");
  }
  argument_writer elements(output_, detail::element_type(type_), number_, write_target::element);
  elements.begin_ = output_.size();
  elements.is_refused_ = elements.type_ == 0;
  output_.append(std::int32_t{0});
  output_.append(std::int32_t{count == 0 ? 0 : 1});  // how many dimensions the array has
  output_.append(std::int32_t{0});  // a flag, which the server ignores: no element is NULL
  output_.append(elements.type_);
  if (count == 0) return elements;
  if (count > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw_out_of_range(std::to_string(count) + " elements");
  }
  output_.append(static_cast<std::int32_t>(count));
  output_.append(std::int32_t{1});  // the index of the first element
  return elements;
}

bool argument_writer::end_array(const argument_writer& elements) {
  if (elements.is_refused_) {
    output_.drop_last(output_.size() - elements.begin_);
    if (target_ == write_target::binary_field) throw_unsupported("an array of these elements");
    return false;
  }
  constexpr std::size_t null_offset = 2 * sizeof(std::int32_t);
  if (elements.has_null_) {
    store_be(output_.mutable_bytes().data() + elements.begin_ + null_offset, std::uint32_t{1});
  }
  set_size(elements.begin_);
  set_format(binary_format);
  ++count_;
  return true;
}

argument_writer argument_writer::begin_text_array() {
  argument_writer elements(output_, detail::element_type(type_), number_,
                           write_target::text_element);
  elements.begin_ = output_.size();
  output_.append(std::int32_t{0});
  output_.append(std::string_view("{"));
  return elements;
}

void argument_writer::end_text_array(const argument_writer& elements) {
  if (elements.is_refused_) throw_unsupported("an array of these elements");
  output_.append(std::string_view("}"));
  set_size(elements.begin_);
  ++count_;
}

// --- Errors ---

std::string argument_writer::describe() const {
  return (target_ == write_target::binary_field ? "column " : "argument ") +
         std::to_string(number_) + " (" + type_name(type_) + ')';
}

void argument_writer::throw_out_of_range(std::string_view value) const {
  detail::throw_error(errc::out_of_range, describe() + ": " + std::string(value));
}

void argument_writer::throw_unsupported(std::string_view name) const {
  detail::throw_error(errc::unsupported_type, describe() + " as " + std::string(name));
}

}  // namespace gyre::postgres
