// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/headers.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/engines/nats/error.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

namespace gyre::nats {
namespace {

bool is_name(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char character) {
    return character > ' ' && character < '\x7f' && character != ':';
  });
}

void append(std::string& lines, const header& entry) {
  lines.append(entry.name).append(": ").append(entry.value).append("\r\n");
}

void check(const header& entry) {
  if (!is_name(entry.name)) {
    throw std::system_error(make_error_code(errc::bad_header),
                            "gyre::nats::headers: name '" + std::string(entry.name) + "'");
  }
  if (entry.value.find_first_of("\r\n") != std::string_view::npos) {
    throw std::system_error(
        make_error_code(errc::bad_header),
        "gyre::nats::headers: the value of " + std::string(entry.name) + " has a line break");
  }
}

}  // namespace

void header_view::iterator::advance() noexcept {
  current_ = {};
  while (!rest_.empty()) {
    const std::size_t end = rest_.find("\r\n");
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 2);
    const std::size_t colon = line.find(':');
    if (colon == 0 || colon == std::string_view::npos) continue;
    current_ = {line.substr(0, colon), gyre::detail::trim(line.substr(colon + 1))};
    return;
  }
}

std::optional<std::string_view> header_view::find(std::string_view name) const noexcept {
  for (const header& header : *this) {
    if (header.name == name) return header.value;
  }
  return std::nullopt;
}

headers::headers(std::initializer_list<header> list) {
  for (const header& header : list) add(header.name, header.value);
}

headers::headers(header_view source) {
  for (const header& header : source) add(header.name, header.value);
}

headers headers::copy_received(header_view source) {
  headers copy;
  for (const header& header : source) append(copy.lines_, header);
  return copy;
}

headers& headers::add(std::string_view name, std::string_view value) {
  check({name, value});
  std::string new_lines;
  append(new_lines, {name, value});
  lines_ += new_lines;
  return *this;
}

headers& headers::set(std::string_view name, std::string_view value) {
  check({name, value});
  const std::string copy(value);  // the value may be a part of these headers
  const std::string name_copy(name);
  return remove(name_copy).add(name_copy, copy);
}

headers& headers::remove(std::string_view name) {
  std::string remaining_lines;
  for (const header& header : header_view(lines_)) {
    if (header.name == name) continue;
    append(remaining_lines, header);
  }
  lines_ = std::move(remaining_lines);
  return *this;
}

}  // namespace gyre::nats
