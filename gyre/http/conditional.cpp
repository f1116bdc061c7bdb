// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/conditional.hpp>

#include <gyre/http/date.hpp>
#include <gyre/http/detail/characters.hpp>

#include <cstddef>

namespace gyre::http {
namespace {

constexpr std::string_view weak_prefix = "W/";

// Removes an entity tag from the beginning of the text and returns it; empty if the text does not
// begin with an entity tag.
std::string_view take_entity_tag(std::string_view& text) noexcept {
  const std::size_t quote = text.starts_with(weak_prefix) ? weak_prefix.size() : 0;
  if (text.size() <= quote || text[quote] != '"') return {};
  for (std::size_t i = quote + 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      const std::string_view tag = text.substr(0, i + 1);
      text.remove_prefix(i + 1);
      return tag;
    }
    if (text[i] == ' ' || !detail::is_value_character(text[i]) || text[i] == '\t') break;
  }
  return {};
}

// Removes the blanks and commas before the next element: elements may be empty (RFC 9110, 5.6.1.2).
void skip_separators(std::string_view& list) noexcept {
  while (!list.empty() && (list.front() == ',' || detail::is_blank(list.front()))) {
    list.remove_prefix(1);
  }
}

enum class list_match : std::uint8_t { matches, differs, malformed };

list_match compare(std::string_view list, const validators& resource,
                   bool (*is_equal)(std::string_view, std::string_view) noexcept) noexcept {
  list = detail::trim(list);
  if (list == "*") return resource.exists ? list_match::matches : list_match::differs;
  skip_separators(list);
  if (list.empty()) return list_match::malformed;
  bool has_match = false;
  while (!list.empty()) {
    const std::string_view tag = take_entity_tag(list);
    list = detail::trim(list);
    if (tag.empty() || (!list.empty() && list.front() != ',')) return list_match::malformed;
    has_match = has_match || (resource.exists && is_equal(tag, resource.entity_tag));
    skip_separators(list);
  }
  return has_match ? list_match::matches : list_match::differs;
}

std::optional<std::chrono::sys_seconds> date_of(std::optional<std::string_view> header) noexcept {
  return header ? parse_date(detail::trim(*header)) : std::nullopt;
}

}  // namespace

bool is_entity_tag(std::string_view text) noexcept {
  return !take_entity_tag(text).empty() && text.empty();
}

bool is_strongly_equal(std::string_view left, std::string_view right) noexcept {
  return left == right && !left.empty() && !left.starts_with(weak_prefix);
}

bool is_weakly_equal(std::string_view left, std::string_view right) noexcept {
  if (left.starts_with(weak_prefix)) left.remove_prefix(weak_prefix.size());
  if (right.starts_with(weak_prefix)) right.remove_prefix(weak_prefix.size());
  return left == right && !left.empty();
}

condition_outcome evaluate(method request_method, const conditions& request,
                           const validators& resource) noexcept {
  using enum condition_outcome;
  const bool reads = request_method == method::get || request_method == method::head;
  if (request.if_match) {
    if (compare(*request.if_match, resource, is_strongly_equal) != list_match::matches) {
      return precondition_failed;
    }
  } else if (const auto date = date_of(request.if_unmodified_since)) {
    if (resource.last_modified && *resource.last_modified > *date) return precondition_failed;
  }
  if (request.if_none_match) {
    const list_match match = compare(*request.if_none_match, resource, is_weakly_equal);
    if (reads && match == list_match::matches) return not_modified;
    if (!reads && match != list_match::differs) return precondition_failed;
  } else if (const auto date = date_of(request.if_modified_since); date && reads) {
    if (resource.last_modified && *resource.last_modified <= *date) return not_modified;
  }
  return proceed;
}

bool if_range_holds(std::string_view if_range, const validators& resource,
                    std::chrono::sys_seconds reference_time) noexcept {
  if_range = detail::trim(if_range);
  if (is_entity_tag(if_range)) return is_strongly_equal(if_range, resource.entity_tag);
  if (!resource.last_modified_is_strong) return false;
  const auto date = parse_date(if_range, reference_time);
  return date && resource.last_modified == date &&
         reference_time - *date >= std::chrono::seconds(1);
}

}  // namespace gyre::http
