// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/statement_cache.hpp>

#include <iterator>
#include <utility>

namespace gyre::postgres::detail {
namespace {

constexpr std::size_t max_bytes = std::size_t{4} << 20;

}  // namespace

statement_cache::shared_statement statement_cache::find(std::string_view text) noexcept {
  const auto match = by_text_.find(text);
  if (match == by_text_.end()) return nullptr;
  by_use_.splice(by_use_.begin(), by_use_, match->second);
  return *match->second;
}

bool statement_cache::is_full() const noexcept {
  return by_use_.size() > max_statements_ || bytes_ > max_bytes;
}

void statement_cache::add(shared_statement statement, std::vector<std::string>& evicted_names) {
  if (const auto match = by_text_.find(statement->text()); match != by_text_.end()) {
    evicted_names.push_back((*match->second)->name());
    erase(match->second);
  }
  by_use_.push_front(std::move(statement));
  try {
    by_text_.emplace(by_use_.front()->text(), by_use_.begin());
  } catch (...) {
    by_use_.pop_front();
    throw;
  }
  bytes_ += by_use_.front()->text().size();
  for (auto position = by_use_.end(); is_full() && position != std::next(by_use_.begin());) {
    const auto oldest_entry = std::prev(position);
    if (oldest_entry->use_count() > 1) {
      position = oldest_entry;
      continue;
    }
    evicted_names.push_back((*oldest_entry)->name());
    erase(oldest_entry);
  }
}

void statement_cache::erase(statement_list::iterator position) noexcept {
  bytes_ -= (*position)->text().size();
  by_text_.erase((*position)->text());
  by_use_.erase(position);
}

bool statement_cache::remove(const prepared_statement& statement) noexcept {
  const auto match = by_text_.find(statement.text());
  if (match == by_text_.end() || match->second->get() != &statement) return false;
  erase(match->second);
  return true;
}

void statement_cache::clear() noexcept {
  by_text_.clear();
  by_use_.clear();
  bytes_ = 0;
}

}  // namespace gyre::postgres::detail
