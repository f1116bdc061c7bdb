// SPDX-License-Identifier: Apache-2.0
// label: a name in the flight recorder, as cheap to record as a pointer.
//
//     constexpr gyre::trace::label name = "resize";
//     const gyre::trace::label route = gyre::trace::intern("GET /users/{id}");
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gyre::trace {
namespace detail {
struct interned_texts;
}  // namespace detail

/// A text that lives until the program ends: a string literal, or one that intern() has stored.
///
/// Thread-safety: immutable.
class label {
 public:
  /// The empty text.
  constexpr label() noexcept = default;
  /// A string literal.
  template <std::size_t Size>
  consteval label(const char (&literal)[Size]) noexcept  // NOLINT: literals convert
      : text_(literal) {}

  [[nodiscard]] constexpr std::string_view text() const noexcept { return text_; }
  [[nodiscard]] constexpr const char* c_str() const noexcept { return text_; }
  friend constexpr bool operator==(label left, label right) noexcept {
    return left.text() == right.text();
  }

 private:
  friend detail::interned_texts;
  explicit constexpr label(const char* interned_text) noexcept : text_(interned_text) {}

  const char* text_ = "";
};

/// The most bytes of texts that intern() stores, with 64 more for each text.
inline constexpr std::size_t max_interned_bytes = std::size_t{1} << 20;

/// Stores `text` for the rest of the program, once however often it is passed, and returns its
/// label. Meant for names that a program chooses, such as routes and the hosts of its servers, not
/// for values that come from a peer.
///
/// Thread-safety: any thread.
/// Errors: none. Returns the label "(too many names)" beyond max_interned_bytes, "(no memory)"
/// without memory.
/// Complexity: a lock and a search in a hash table, some 100 ns; allocates for a new text.
label intern(std::string_view text) noexcept;

}  // namespace gyre::trace
