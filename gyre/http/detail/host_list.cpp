// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/host_list.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/host_field.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace gyre::http::detail {
namespace {

bool is_less_ignoring_case(std::string_view left, std::string_view right) noexcept {
  return std::ranges::lexicographical_compare(left, right, {}, &lower, &lower);
}

std::string_view without_last_dot(std::string_view host) noexcept {
  if (host.ends_with('.')) host.remove_suffix(1);
  return host;
}

}  // namespace

host_list::host_list(const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) {
    std::string_view host = without_last_dot(entry);
    const bool is_wildcard = host.starts_with("*.");
    if (is_wildcard) host.remove_prefix(2);
    const bool names_none = entry.empty();
    if (!names_none && (host.empty() || host_of(host) != host || host.contains('*'))) {
      throw std::invalid_argument("http::server: hosts: " + entry + " is no host without a port");
    }
    (is_wildcard ? parents_ : names_).emplace_back(host);
  }
  std::ranges::sort(names_, is_less_ignoring_case);
  std::ranges::sort(parents_, is_less_ignoring_case);
}

bool host_list::covers(std::string_view host) const noexcept {
  if (empty()) return true;
  host = without_last_dot(host);
  if (std::ranges::binary_search(names_, host, is_less_ignoring_case)) return true;
  const std::size_t dot = host.find('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  return std::ranges::binary_search(parents_, host.substr(dot + 1), is_less_ignoring_case);
}

}  // namespace gyre::http::detail
