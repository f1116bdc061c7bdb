// SPDX-License-Identifier: Apache-2.0
// query: a view of the pairs in "a=1&b=2", as in the query of a URL or the body of a form.
//
//     const auto pairs = gyre::http::query::parse("name=J%C3%BCrgen+K&page=2");
//     if (!pairs) throw std::system_error(pairs.error());
//     std::string name = pairs->get("name").value_or("nobody");  // "Jürgen K"
//     for (const auto& pair : *pairs) log(pair.decoded_name(), pair.decoded_value());
#pragma once

#include <cstddef>
#include <expected>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace gyre::http {

/// Limits of a query or a form.
struct query_limits {
  std::size_t max_size = 1024 * 1024;  ///< bytes of the whole text
  std::size_t max_pairs = 1000;        ///< the number of pairs
};

/// A pair of a query, still encoded.
struct query_pair {
  std::string_view name;
  std::string_view value;  ///< empty if the pair has no '='

  /// The decoded text, with '+' as a blank. Allocates.
  [[nodiscard]] std::string decoded_name() const;
  [[nodiscard]] std::string decoded_value() const;
};

/// A view of the pairs of a query, in their order; a name may occur several times. Empty pairs, as
/// in "a&&b", are skipped. The text is parsed as application/x-www-form-urlencoded (URL Standard),
/// except that a malformed '%' is an error.
///
/// Thread-safety: as a value.
/// Lifetime: the text must outlive the view, its iterators and their pairs.
/// Complexity: parse() reads the text once and allocates nothing; get() reads the text once.
class query {
 public:
  class iterator;

  /// Constructs an empty query.
  constexpr query() noexcept = default;
  /// Parses the text of a query. Errors: format_errc::bad_percent_encoding, too_many_pairs,
  /// too_long.
  [[nodiscard]] static std::expected<query, std::error_code> parse(std::string_view text,
                                                                   query_limits limits = {});

  [[nodiscard]] std::string_view text() const noexcept { return text_; }
  [[nodiscard]] bool empty() const noexcept;
  [[nodiscard]] iterator begin() const noexcept;
  [[nodiscard]] iterator end() const noexcept;

  /// The first value of a pair with this name, decoded with '+' as a blank; nothing if there is
  /// none.
  [[nodiscard]] std::optional<std::string> get(std::string_view name) const;
  /// Returns all values of pairs with this name, decoded.
  [[nodiscard]] std::vector<std::string> get_all(std::string_view name) const;
  /// The first value of a pair with this name, still encoded. Allocates nothing.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept;
  [[nodiscard]] bool contains(std::string_view name) const noexcept {
    return find(name).has_value();
  }

 private:
  explicit constexpr query(std::string_view text) noexcept : text_(text) {}

  std::string_view text_;
};

/// A forward iterator over the pairs.
class query::iterator {
 public:
  using value_type = query_pair;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::forward_iterator_tag;

  iterator() noexcept = default;
  const query_pair& operator*() const noexcept { return pair_; }
  const query_pair* operator->() const noexcept { return &pair_; }
  iterator& operator++() noexcept {
    advance();
    return *this;
  }
  iterator operator++(int) noexcept {
    const iterator old_position = *this;
    advance();
    return old_position;
  }
  /// Compares iterators of the same query.
  friend bool operator==(const iterator& left, const iterator& right) noexcept {
    return left.is_at_end_ == right.is_at_end_ && left.rest_.size() == right.rest_.size();
  }

 private:
  friend query;
  explicit iterator(std::string_view rest) noexcept : rest_(rest) { advance(); }
  void advance() noexcept;

  std::string_view rest_;
  query_pair pair_ = {};
  bool is_at_end_ = true;
};

inline query::iterator query::begin() const noexcept { return iterator(text_); }
inline query::iterator query::end() const noexcept { return {}; }
inline bool query::empty() const noexcept { return begin() == end(); }

/// Appends a pair to a query or a form: "name=value", encoded, after a '&' unless `output` is
/// empty.
void append_pair(std::string& output, std::string_view name, std::string_view value);

}  // namespace gyre::http
