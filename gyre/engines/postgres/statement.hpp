// SPDX-License-Identifier: Apache-2.0
// statement: the text of a statement of SQL, and how to execute it.
//
//     const gyre::postgres::statement slow("select report($1)", {.timeout = 30s});
//     auto report = co_await db.query_one<std::string>(slow, year);
#pragma once

#include <gyre/base/duration.hpp>

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gyre::postgres {

/// Options of a statement.
struct statement_options {
  /// The limit of the call's time: waiting for a connection, the server's work, and the result. The
  /// server applies it, too (statement_timeout), so that the statement stops even if the client is
  /// gone. Unset: the limit of client_options; duration::max(): no limit. With a limit, the server
  /// executes the statement in a transaction block, which VACUUM and the like refuse.
  std::optional<duration> timeout = std::nullopt;
  /// The limit of a result's rows, in bytes as they come; beyond it the call fails with
  /// errc::result_too_large. Unset: the limit of client_options.
  std::optional<std::size_t> max_result = std::nullopt;
  /// Whether the connection keeps the statement prepared, so that the server parses it once. Choose
  /// false for a text that is used once, such as one that a program makes of pieces.
  bool is_prepared = true;
  /// Whether the statement may be executed twice: then it is sent again if the connection was lost
  /// before the reply came. Has no effect within a transaction.
  bool is_idempotent = false;
};

/// A statement, with its parameters written as $1, $2 …; converted from a text where a function
/// takes a statement.
///
/// Lifetime: refers to its text, unless that is a temporary std::string, which it keeps.
class statement {
 public:
  template <class Text>
    requires(std::convertible_to<const Text&, std::string_view> &&
             !std::derived_from<std::remove_cvref_t<Text>, statement>)
  statement(Text&& text, statement_options options = {}) : options_(options) {
    if constexpr (std::same_as<std::remove_cvref_t<Text>, std::string> &&
                  !std::is_lvalue_reference_v<Text>) {
      own_text_ = std::forward<Text>(text);
    } else {
      text_ = std::string_view(text);
    }
  }

  [[nodiscard]] std::string_view text() const noexcept { return text_.empty() ? own_text_ : text_; }
  [[nodiscard]] const statement_options& options() const noexcept { return options_; }

 private:
  std::string_view text_;
  std::string own_text_;
  statement_options options_;
};

}  // namespace gyre::postgres
