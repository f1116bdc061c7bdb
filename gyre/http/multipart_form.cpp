// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/multipart_form.hpp>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <utility>

namespace gyre::http {
namespace {

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char each : text) {
    switch (each) {
      case '"': out += "%22"; break;
      case '\r': out += "%0D"; break;
      case '\n': out += "%0A"; break;
      default: out += each;
    }
  }
  out += '"';
}

}  // namespace

multipart_form::multipart_form() : boundary_("gyre-") {
  constexpr std::string_view characters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  std::random_device random;
  for (int count = 0; count != 24; ++count) boundary_ += characters[random() % 64];
}

void multipart_form::begin_part(std::string_view name) {
  body_.append("--").append(boundary_).append("\r\nContent-Disposition: form-data; name=");
  append_quoted(body_, name);
}

multipart_form& multipart_form::add(std::string_view name, std::string_view value) {
  begin_part(name);
  body_.append("\r\n\r\n").append(value).append("\r\n");
  return *this;
}

multipart_form& multipart_form::add_file(std::string_view name, std::string_view file_name,
                                         std::string_view content_type, std::string_view bytes) {
  const auto is_control = [](char each) { return static_cast<unsigned char>(each) < ' '; };
  if (std::ranges::any_of(content_type, is_control)) {
    throw std::invalid_argument("http::multipart_form: a content type with control characters");
  }
  begin_part(name);
  body_.append("; filename=");
  append_quoted(body_, file_name);
  body_.append("\r\nContent-Type: ").append(content_type);
  body_.append("\r\n\r\n").append(bytes).append("\r\n");
  return *this;
}

std::string multipart_form::content_type() const {
  return "multipart/form-data; boundary=" + boundary_;
}

std::string multipart_form::take_body() && {
  body_.append("--").append(boundary_).append("--\r\n");
  return std::exchange(body_, {});
}

}  // namespace gyre::http
