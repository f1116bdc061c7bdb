// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/fields.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/find_control.hpp>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

namespace gyre::http {
namespace {

using detail::equals_ignoring_case;

void check_value(std::string_view name, std::string_view value) {
  const char* const end = value.data() + value.size();
  const char* position = detail::find_control(value.data(), end);
  while (position != end && *position == '\t') position = detail::find_control(position + 1, end);
  if (position == end) return;
  throw std::invalid_argument("http::fields: a control character in the value of " +
                              std::string(name));
}

void check_name(std::string_view name) {
  if (detail::is_token(name)) return;
  throw std::invalid_argument("http::fields: \"" + std::string(name) + "\" is no field name");
}

}  // namespace

fields::fields(const fields& other) : name_sizes_(other.name_sizes_) {
  text_.append(other.text_.bytes());
}

fields& fields::operator=(const fields& other) {
  if (this != &other) *this = fields(other);
  return *this;
}

// Whether `text` is a view into these fields, whose bytes move when fields are added or erased.
bool fields::has_within(std::string_view text) const noexcept {
  const std::string_view own_text = text_.text();
  return !std::less<>()(text.data(), own_text.data()) &&
         std::less<>()(text.data(), own_text.data() + own_text.size());
}

fields& fields::add(std::string_view name, std::string_view value) {
  if (has_within(name) || has_within(value)) return add(std::string(name), std::string(value));
  check_name(name);
  return add_to_known_name(name, value);
}

fields& fields::add_to_known_name(std::string_view name, std::string_view value) {
  value = detail::trim(value);
  check_value(name, value);
  return add_checked(name, value);
}

fields& fields::add_checked(std::string_view name, std::string_view value) {
  const std::size_t size = name.size() + value.size() + 4;
  std::byte* output = text_.prepare(size).data();
  const auto append = [&output](std::string_view text) {
    if (!text.empty()) std::memcpy(output, text.data(), text.size());
    output += text.size();
  };
  append(name);
  append(": ");
  append(value);
  append("\r\n");
  text_.commit(size);
  name_sizes_ |= bit_of_size(name.size());
  return *this;
}

fields& fields::set(std::string_view name, std::string_view value) {
  if (has_within(name) || has_within(value)) return set(std::string(name), std::string(value));
  value = detail::trim(value);
  check_name(name);
  check_value(name, value);
  if (!empty()) erase(name);
  return add_checked(name, value);
}

std::size_t fields::erase(std::string_view name) noexcept {
  std::size_t erased_count = 0;
  std::size_t kept_size = 0;
  const std::span<std::byte> bytes = text_.mutable_bytes();
  std::size_t position = 0;
  for (iterator entry = begin(); entry != end();) {
    const std::size_t size = entry->name.size() + entry->value.size() + 4;
    const bool matches = equals_ignoring_case(entry->name, name);
    ++entry;  // the bytes after this field move below
    if (matches) {
      ++erased_count;
    } else {
      if (kept_size != position)
        std::memmove(bytes.data() + kept_size, bytes.data() + position, size);
      kept_size += size;
    }
    position += size;
    if (erased_count != 0)
      entry = position < bytes.size() ? iterator(text().substr(position)) : end();
  }
  if (erased_count != 0) {
    text_.clear();
    text_.commit(kept_size);
  }
  return erased_count;
}

std::optional<std::string_view> fields::get(std::string_view name) const noexcept {
  for (const field& field : *this) {
    if (equals_ignoring_case(field.name, name)) return field.value;
  }
  return std::nullopt;
}

void fields::iterator::read_next() noexcept {
  if (rest_.empty()) {
    current_ = {};
    return;
  }
  const std::size_t colon = rest_.find(':');
  const std::size_t line_end = rest_.find('\r', colon);
  current_ = {.name = rest_.substr(0, colon),
              .value = rest_.substr(colon + 2, line_end - colon - 2)};
  rest_.remove_prefix(line_end + 2);
}

std::optional<std::string_view> field_list::get(std::string_view name) const noexcept {
  for (const field& field : fields_) {
    if (equals_ignoring_case(field.name, name)) return field.value;
  }
  return std::nullopt;
}

}  // namespace gyre::http
