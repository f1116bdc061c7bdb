// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/origin_list.hpp>

#include <gyre/http/detail/characters.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace gyre::http::detail {
namespace {

constexpr std::size_t max_label = 63;  // characters, of a name in DNS

[[noreturn]] void refuse_origin(std::string_view origin, std::string_view reason) {
  throw std::invalid_argument("http::cors: the origin '" + std::string(origin) + "' " +
                              std::string(reason));
}

bool is_label(std::string_view text) noexcept {
  return !text.empty() && text.size() <= max_label && text.find('.') == std::string_view::npos &&
         all_are(in_name, text);
}

// Throws unless `origin` is one that a browser sends: scheme, host and a port that is not the
// default, without anything after it.
void check(std::string_view origin) {
  if (std::ranges::any_of(origin, [](char each) { return lower(each) != each; })) {
    refuse_origin(origin, "must be in lower case, as browsers send it");
  }
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos || scheme == 0 ||
      !all_are(in_scheme, origin.substr(0, scheme))) {
    refuse_origin(origin, "must begin with a scheme, as in https://example.org");
  }
  const std::string_view authority = origin.substr(scheme + 3);
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view host = authority.substr(0, colon);
  const bool is_address = host.starts_with('[') && host.ends_with(']');
  if (host.empty() || (!is_address && !all_are(in_name, host))) {
    refuse_origin(origin, "must have a host, and neither a path nor a '/' at its end");
  }
  if (colon == std::string_view::npos) return;
  const std::string_view port = authority.substr(colon + 1);
  if (port.empty() || port.size() > 5 || !std::ranges::all_of(port, is_digit)) {
    refuse_origin(origin, "must have a number as its port, and nothing after it");
  }
  const std::string_view scheme_name = origin.substr(0, scheme);
  if ((scheme_name == "http" && port == "80") || (scheme_name == "https" && port == "443")) {
    refuse_origin(origin, "must not name the default port, because browsers do not");
  }
}

}  // namespace

origin_list::origin_list(const std::vector<std::string>& origins) {
  for (const std::string& each : origins) {
    if (each == "*") {
      if (origins.size() != 1) refuse_origin(each, "must stand alone");
      allows_any_ = true;
      continue;
    }
    const std::size_t star = each.find("://*.");
    if (star == std::string::npos) {
      check(each);
      exact_.push_back(each);
      continue;
    }
    check(each.substr(0, star + 3) + each.substr(star + 5));
    patterns_.push_back({.scheme = each.substr(0, star + 3), .suffix = each.substr(star + 4)});
  }
}

bool origin_list::contains(std::string_view origin) const noexcept {
  if (allows_any_) return true;
  if (std::ranges::find(exact_, origin) != exact_.end()) return true;
  return std::ranges::any_of(patterns_, [&](const pattern& each) {
    return origin.size() > each.scheme.size() + each.suffix.size() &&
           origin.starts_with(each.scheme) && origin.ends_with(each.suffix) &&
           is_label(origin.substr(each.scheme.size(),
                                  origin.size() - each.scheme.size() - each.suffix.size()));
  });
}

}  // namespace gyre::http::detail
