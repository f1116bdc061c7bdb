// SPDX-License-Identifier: Apache-2.0
// form: the fields of an HTML form; reads and writes application/x-www-form-urlencoded.
//
//     auto form = gyre::http::form::parse("name=J%C3%BCrgen+K&page=2", {.max_pairs = 50});
//     if (!form) throw std::system_error(form.error());
//     std::string name(form->get("name").value_or("nobody"));   // "Jürgen K"
//     std::string body = form->add("sent", "1+1").to_string();  // "…&sent=1%2B1"
#pragma once

#include <gyre/http/query.hpp>

#include <cstddef>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::http {

/// A decoded field of a form. It may hold any bytes; browsers send UTF-8.
struct form_field {
  std::string name;
  std::string value;

  friend bool operator==(const form_field&, const form_field&) = default;
};

/// The decoded fields of a form, in their order; a name may occur several times. To read a few
/// fields of a large form without copies, use `query`, which reads the same format.
///
/// Thread-safety: none; may be handed from thread to thread.
/// Lifetime: the form owns its fields. Views that it returns are valid until it changes.
/// Complexity: parse() reads the text once and allocates the fields; get() compares each name.
class form {
 public:
  /// The Content-Type of the text that to_string() returns.
  static constexpr std::string_view content_type = "application/x-www-form-urlencoded";

  form() = default;
  explicit form(std::vector<form_field> fields) noexcept : fields_(std::move(fields)) {}

  /// Errors: those of query::parse(). Allocates nothing before the text was found valid.
  [[nodiscard]] static std::expected<form, std::error_code> parse(std::string_view text,
                                                                  query_limits limits = {});

  [[nodiscard]] const std::vector<form_field>& fields() const noexcept { return fields_; }
  [[nodiscard]] auto begin() const noexcept { return fields_.begin(); }
  [[nodiscard]] auto end() const noexcept { return fields_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return fields_.size(); }
  [[nodiscard]] bool empty() const noexcept { return fields_.empty(); }

  /// The first value of a field with this name; nothing if there is none.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const noexcept;
  /// Returns all values of fields with this name, in their order.
  [[nodiscard]] std::vector<std::string_view> get_all(std::string_view name) const;
  [[nodiscard]] bool contains(std::string_view name) const noexcept {
    return get(name).has_value();
  }

  /// Adds a field after the others. Returns the form.
  form& add(std::string_view name, std::string_view value);

  /// The form as the body of a request or the query of a URL. Blanks are encoded as %20.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const form&, const form&) = default;

 private:
  std::vector<form_field> fields_;
};

}  // namespace gyre::http
