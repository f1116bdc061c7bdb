// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/origin_list.hpp>

#include <gyre/http/detail/characters.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace gyre::http::detail {
namespace {

constexpr std::size_t max_label = 63;  // the maximum size of a label in DNS

constexpr std::string_view any_label = "://*.";  // the '*' stands for one label

[[noreturn, gnu::cold]] void refuse_origin(const char* owner, std::string_view origin,
                                           std::string_view reason) {
  throw std::invalid_argument(std::string(owner) + ": the origin '" + std::string(origin) + "' " +
                              std::string(reason));
}

bool is_label(std::string_view text) noexcept {
  return !text.empty() && text.size() <= max_label && text.find('.') == std::string_view::npos &&
         all_are(in_name, text);
}

// Throws unless `origin` is one that a browser sends: scheme, host and a port that is not the
// default, without anything after it.
void check_origin(std::string_view origin, const char* owner) {
  if (std::ranges::any_of(origin, [](char character) { return lower(character) != character; })) {
    refuse_origin(owner, origin, "must be in lower case, as browsers send it");
  }
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos || scheme == 0 ||
      !all_are(in_scheme, origin.substr(0, scheme))) {
    refuse_origin(owner, origin, "must begin with a scheme, as in https://example.org");
  }
  const std::string_view authority = origin.substr(scheme + 3);
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view host = authority.substr(0, colon);
  const bool is_address = host.starts_with('[') && host.ends_with(']');
  if (host.empty() || (!is_address && !all_are(in_name, host))) {
    refuse_origin(owner, origin, "must have a host, and neither a path nor a '/' at its end");
  }
  if (colon == std::string_view::npos) return;
  const std::string_view port = authority.substr(colon + 1);
  if (port.empty() || port.size() > 5 || !std::ranges::all_of(port, is_digit)) {
    refuse_origin(owner, origin, "must have a number as its port, and nothing after it");
  }
  const std::string_view scheme_name = origin.substr(0, scheme);
  if ((scheme_name == "http" && port == "80") || (scheme_name == "https" && port == "443")) {
    refuse_origin(owner, origin, "must not name the default port, because browsers do not");
  }
}

// Whether `origin` has one label in place of the '*' of "https://*.example.org:8443".
bool matches_pattern(std::string_view pattern, std::size_t position,
                     std::string_view origin) noexcept {
  const std::string_view prefix = pattern.substr(0, position);
  const std::string_view suffix = pattern.substr(position + 1);
  return origin.size() > prefix.size() + suffix.size() && origin.starts_with(prefix) &&
         origin.ends_with(suffix) &&
         is_label(origin.substr(prefix.size(), origin.size() - prefix.size() - suffix.size()));
}

}  // namespace

void check_origins(std::span<const std::string> origins, const char* owner) {
  for (const std::string& origin : origins) {
    if (origin == "*") {
      if (origins.size() != 1) refuse_origin(owner, origin, "must stand alone");
      continue;
    }
    const std::size_t star = origin.find(any_label);
    if (star == std::string::npos) {
      check_origin(origin, owner);
    } else {
      check_origin(origin.substr(0, star + 3) + origin.substr(star + any_label.size()), owner);
    }
  }
}

bool allows_any_origin(std::span<const std::string> origins) noexcept {
  return origins.size() == 1 && origins.front() == "*";
}

bool contains_origin(std::span<const std::string> origins, std::string_view origin) noexcept {
  return allows_any_origin(origins) ||
         std::ranges::any_of(origins, [origin](std::string_view candidate) {
           const std::size_t star = candidate.find(any_label);
           return star == std::string_view::npos ? candidate == origin
                                                 : matches_pattern(candidate, star + 3, origin);
         });
}

}  // namespace gyre::http::detail
