// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/trace_parent.hpp>

#include <gyre/base/detail/system_random.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace gyre::http {
namespace {

constexpr std::string_view digits = "0123456789abcdef";

bool is_lower_hex(std::string_view text) noexcept {
  return text.find_first_not_of(digits) == text.npos;
}
bool is_zero(std::string_view text) noexcept { return text.find_first_not_of('0') == text.npos; }
bool is_id(std::string_view text) noexcept { return is_lower_hex(text) && !is_zero(text); }

// Fills `id` with random digits that are not all zero.
void fill_with_digits(std::span<char> id) {
  std::array<std::byte, 32> random_bytes{};
  do {
    gyre::detail::require_random(std::span(random_bytes).first(id.size()), "http::trace_parent");
    for (std::size_t i = 0; i < id.size(); ++i) {
      id[i] = digits[std::to_integer<std::size_t>(random_bytes[i]) % digits.size()];
    }
  } while (is_zero({id.data(), id.size()}));
}

}  // namespace

std::optional<trace_parent> trace_parent::parse(std::string_view text) noexcept {
  // The positions in "VV-", the id of the trace, "-", the id of the request, "-FF", which later
  // versions may continue.
  constexpr std::size_t trace_begin = 3, parent_begin = 36, flags_begin = 53, size = 55;
  if (text.size() < size) return std::nullopt;
  const std::string_view version = text.substr(0, 2);
  if (!is_lower_hex(version) || version == "ff") return std::nullopt;
  if (text.size() > size && (version == "00" || text[size] != '-')) return std::nullopt;
  const std::string_view trace = text.substr(trace_begin, 32);
  const std::string_view parent = text.substr(parent_begin, 16);
  const std::string_view flags = text.substr(flags_begin, 2);
  const bool has_dashes =
      text[trace_begin - 1] == '-' && text[parent_begin - 1] == '-' && text[flags_begin - 1] == '-';
  if (!has_dashes || !is_id(trace) || !is_id(parent) || !is_lower_hex(flags)) return std::nullopt;
  trace_parent result;
  std::ranges::copy(trace, result.trace_id_.begin());
  std::ranges::copy(parent, result.parent_id_.begin());
  result.is_sampled_ = digits.find(flags[1]) % 2 == 1;  // the lowest bit of the flags
  return result;
}

trace_parent trace_parent::make(bool is_sampled) {
  trace_parent result;
  fill_with_digits(result.trace_id_);
  fill_with_digits(result.parent_id_);
  result.is_sampled_ = is_sampled;
  return result;
}

trace_parent trace_parent::make_child() const {
  trace_parent child = *this;
  fill_with_digits(child.parent_id_);
  return child;
}

std::string trace_parent::to_string() const {
  std::string text = "00-";
  text.append(trace_id()).append("-").append(parent_id()).append(is_sampled_ ? "-01" : "-00");
  return text;
}

}  // namespace gyre::http
