// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/multipart_writer.hpp>

#include <gyre/http/detail/boundary.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/media_type.hpp>
#include <gyre/io/input.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gyre::http {
namespace {

void append_name(std::string& output, std::string_view name) {
  output += '"';
  for (const char character : name) {
    switch (character) {
      case '"': output += "%22"; break;
      case '\r': output += "%0D"; break;
      case '\n': output += "%0A"; break;
      case '\\': output += "\\\\"; break;
      default: output += character;
    }
  }
  output += '"';
}

bool can_be_quoted(std::string_view name) noexcept {
  return std::ranges::all_of(name, [](char character) {
    return character == '\r' || character == '\n' || detail::is_value_character(character);
  });
}

}  // namespace

multipart_writer::multipart_writer() : boundary_(detail::random_boundary()) {}

multipart_writer::multipart_writer(std::string_view boundary) : boundary_(boundary) {
  if (!detail::is_boundary(boundary)) {
    refuse(
        "the boundary is empty, longer than 70 characters, or has characters that are not "
        "allowed");
  }
}

void multipart_writer::refuse(std::string_view reason) const {
  throw std::invalid_argument("gyre::http::multipart_writer: " + std::string(reason));
}

void multipart_writer::refuse_boundary_in(std::string_view bytes) const {
  if (io::input(bytes).find(std::string_view(boundary_)) != io::input::npos) {
    refuse("the data contain the boundary");
  }
}

std::string multipart_writer::content_type() const {
  const std::string_view quote = detail::is_token(boundary_) ? "" : "\"";
  std::string type = "multipart/form-data; boundary=";
  return type.append(quote).append(boundary_).append(quote);
}

void multipart_writer::append_head(std::string_view name, const std::string_view* file_name,
                                   std::string_view content_type) {
  if (is_finished_) refuse("the body is finished");
  if (!can_be_quoted(name) || (file_name != nullptr && !can_be_quoted(*file_name))) {
    refuse("a name has a control character");
  }
  if (!content_type.empty() && !media_type::parse(content_type)) {
    refuse("'" + std::string(content_type) + "' is no media type");
  }
  if (std::exchange(has_parts_, true)) text_ += "\r\n";
  text_.append("--").append(boundary_).append("\r\nContent-Disposition: form-data; name=");
  append_name(text_, name);
  if (file_name != nullptr) {
    text_ += "; filename=";
    append_name(text_, *file_name);
  }
  if (!content_type.empty()) text_.append("\r\nContent-Type: ").append(content_type);
  text_ += "\r\n\r\n";
}

multipart_writer& multipart_writer::add(std::string_view name, std::string_view value) {
  refuse_boundary_in(value);
  append_head(name, nullptr, {});
  text_ += value;
  return *this;
}

multipart_writer& multipart_writer::start_file(std::string_view name, std::string_view file_name,
                                               std::string_view content_type) {
  if (content_type.empty()) refuse("a file has no content type");
  append_head(name, &file_name, content_type);
  return *this;
}

multipart_writer& multipart_writer::add_file(std::string_view name, std::string_view file_name,
                                             std::string_view content_type, std::string_view text) {
  refuse_boundary_in(text);
  start_file(name, file_name, content_type);
  text_ += text;
  return *this;
}

multipart_writer& multipart_writer::add_file(std::string_view name, std::string_view file_name,
                                             std::string_view content_type,
                                             std::span<const std::byte> bytes) {
  return add_file(name, file_name, content_type, io::input(bytes).text());
}

multipart_writer& multipart_writer::finish() {
  if (std::exchange(is_finished_, true)) return *this;
  if (has_parts_) text_ += "\r\n";
  text_.append("--").append(boundary_).append("--\r\n");
  return *this;
}

std::string multipart_writer::take() noexcept { return std::exchange(text_, {}); }

}  // namespace gyre::http
