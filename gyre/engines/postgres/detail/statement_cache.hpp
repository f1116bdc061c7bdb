// SPDX-License-Identifier: Apache-2.0
// statement_cache: the statements that a connection keeps prepared, by their texts.
#pragma once

#include <gyre/engines/postgres/detail/prepared_statement.hpp>

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gyre::postgres::detail {

/// A cache that drops the least recently used statement when there are more than `max_statements`,
/// or more than 4 MiB of texts. A statement to which other code refers is not dropped, as it is
/// about to be used.
///
/// Thread-safety: the loop's thread.
/// Complexity: a search is that of a hash table, and allocates nothing.
class statement_cache {
 public:
  using shared_statement = std::shared_ptr<const prepared_statement>;

  explicit statement_cache(std::size_t max_statements) noexcept : max_statements_(max_statements) {}

  std::size_t size() const noexcept { return by_use_.size(); }
  /// Returns the statement, which counts as a use, or null.
  shared_statement find(std::string_view text) noexcept;
  /// Adds a statement, instead of one with the same text. Names of those that are dropped are added
  /// to `evicted_names`. Throws std::bad_alloc, and then may have dropped some.
  void add(shared_statement statement, std::vector<std::string>& evicted_names);
  /// Drops a statement if it is there; true if it was.
  bool remove(const prepared_statement& statement) noexcept;
  /// Drops all statements, because the connection has ended.
  void clear() noexcept;

 private:
  using statement_list = std::list<shared_statement>;

  void erase(statement_list::iterator position) noexcept;
  bool is_full() const noexcept;

  const std::size_t max_statements_;
  std::size_t bytes_ = 0;
  statement_list by_use_;  // the most recently used statement is first
  std::unordered_map<std::string_view, statement_list::iterator> by_text_;
};

}  // namespace gyre::postgres::detail
