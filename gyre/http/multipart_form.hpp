// SPDX-License-Identifier: Apache-2.0
// multipart_form: a body of "multipart/form-data" (RFC 7578), as a client sends it.
//
//     gyre::http::multipart_form form;
//     form.add("title", "Holiday").add_file("photo", "beach.jpg", "image/jpeg", std::move(bytes));
//     request.set_form(std::move(form));
#pragma once

#include <string>
#include <string_view>

namespace gyre::http {

/// A form in memory. The boundary is random, with 144 bits, so that no part contains it.
///
/// Thread-safety: none. Copyable.
/// Errors: add() and add_file() throw std::invalid_argument for a content type with control
/// characters. Quotes and line ends in names are percent-encoded, as browsers do.
/// Complexity: the parts are copied into one string.
class multipart_form {
 public:
  multipart_form();

  multipart_form& add(std::string_view name, std::string_view value);
  multipart_form& add_file(std::string_view name, std::string_view file_name,
                           std::string_view content_type, std::string_view bytes);

  [[nodiscard]] std::string content_type() const;
  /// The body so far, with its end; the form is empty afterwards.
  [[nodiscard]] std::string take_body() &&;

 private:
  void begin_part(std::string_view name);

  std::string boundary_;
  std::string body_;
};

}  // namespace gyre::http
