// SPDX-License-Identifier: Apache-2.0
// uuid: a universally unique identifier (RFC 9562), as PostgreSQL's type uuid holds it.
//
//     auto id = co_await db.query_one<gyre::postgres::uuid>("select gen_random_uuid()");
//     std::string text = id.to_string();  // "0191d5a4-3c5e-4b1f-8d2a-6f0f6f1f2f3f"
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::postgres {

/// 16 bytes; a value, all zeros by default.
class uuid {
 public:
  using byte_array = std::array<std::byte, 16>;

  constexpr uuid() noexcept = default;
  constexpr explicit uuid(const byte_array& bytes) noexcept : bytes_(bytes) {}
  /// Reads a text as parse() does. Throws std::invalid_argument.
  explicit uuid(std::string_view text);

  /// Reads 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12, separated by '-'; returns
  /// std::nullopt for other texts.
  [[nodiscard]] static std::optional<uuid> parse(std::string_view text) noexcept;
  /// Returns the text in lower case.
  [[nodiscard]] std::string to_string() const;

  [[nodiscard]] constexpr const byte_array& bytes() const noexcept { return bytes_; }

  friend constexpr auto operator<=>(const uuid&, const uuid&) noexcept = default;

 private:
  byte_array bytes_ = {};
};

}  // namespace gyre::postgres

template <>
struct std::hash<gyre::postgres::uuid> {
  std::size_t operator()(const gyre::postgres::uuid& value) const noexcept {
    return std::hash<std::string_view>()(std::string_view(
        reinterpret_cast<const char*>(value.bytes().data()), value.bytes().size()));
  }
};
