// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/cookie_jar.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/cookie_text.hpp>
#include <gyre/net/address.hpp>

#include <algorithm>
#include <functional>
#include <utility>

namespace gyre::http {
namespace {

constexpr std::size_t max_header_size = 8192, max_attribute_size = 1024;
constexpr std::chrono::seconds max_lifetime = std::chrono::days(400);

bool is_control(char character) noexcept {
  return (static_cast<unsigned char>(character) < 0x20 && character != '\t') || character == '\x7f';
}

bool is_over_tls(const url& location) noexcept {
  return location.scheme() == "https" || location.scheme() == "wss";
}

bool domain_matches(std::string_view host, std::string_view domain) noexcept {
  if (host == domain) return true;
  return host.size() > domain.size() && host.ends_with(domain) &&
         host[host.size() - domain.size() - 1] == '.' && !net::ip_address::parse(host);
}

bool path_matches(std::string_view path, std::string_view cookie) noexcept {
  if (!path.starts_with(cookie)) return false;
  return path.size() == cookie.size() || cookie.ends_with('/') || path[cookie.size()] == '/';
}

// Returns the path of a cookie that has no attribute Path: the directory of the request's path.
std::string_view default_path(std::string_view path) noexcept {
  const std::size_t last = path.rfind('/');
  return last == 0 || last == path.npos ? "/" : path.substr(0, last);
}

std::optional<std::chrono::seconds> parse_max_age(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.empty() || !std::ranges::all_of(digits, detail::is_digit)) return std::nullopt;
  if (digits.size() < text.size()) return std::chrono::seconds(0);
  const auto count = gyre::detail::parse_decimal<std::uint32_t>(digits);
  return std::min(max_lifetime, std::chrono::seconds(count.value_or(UINT32_MAX)));
}

void read_attribute(std::string_view text, received_cookie& cookie) {
  const std::string_view name = detail::trim(detail::take_until(text, '='));
  const std::string_view value = detail::trim(text);
  if (value.size() > max_attribute_size) return;
  const auto is_named = [&](std::string_view attribute) {
    return detail::equals_ignoring_case(name, attribute);
  };
  if (is_named("secure")) {
    cookie.secure = true;
  } else if (is_named("httponly")) {
    cookie.http_only = true;
  } else if (is_named("path")) {
    cookie.path = value.starts_with('/') ? value : std::string_view();
  } else if (is_named("domain")) {
    cookie.domain = detail::to_lower(value.substr(value.starts_with('.') ? 1 : 0));
  } else if (is_named("max-age")) {
    if (const auto age = parse_max_age(value)) cookie.max_age = age;
  } else if (is_named("expires")) {
    if (const auto date = detail::parse_cookie_date(value)) cookie.expires = date;
  }
}

}  // namespace

std::optional<received_cookie> received_cookie::parse(std::string_view header) {
  if (header.size() > max_header_size || std::ranges::any_of(header, is_control)) {
    return std::nullopt;
  }
  std::string_view pair = detail::take_until(header, ';');
  if (!pair.contains('=')) return std::nullopt;
  const std::string_view name = detail::trim(detail::take_until(pair, '='));
  if (name.empty()) return std::nullopt;
  received_cookie cookie{.name = std::string(name), .value = std::string(detail::trim(pair))};
  while (!header.empty()) read_attribute(detail::take_until(header, ';'), cookie);
  return cookie;
}

std::optional<cookie_jar::stored_cookie> cookie_jar::accept(const url& sender,
                                                            received_cookie& cookie,
                                                            time_point time) {
  if (cookie.secure && !is_over_tls(sender)) return std::nullopt;
  const detail::cookie_prefix prefix = detail::prefix_of(cookie.name);
  if (prefix != detail::cookie_prefix::none && !cookie.secure) return std::nullopt;
  if (prefix == detail::cookie_prefix::host && (!cookie.domain.empty() || cookie.path != "/")) {
    return std::nullopt;
  }
  bool host_only = cookie.domain.empty();
  if (!host_only) {
    const bool is_single_label = !cookie.domain.contains('.') || cookie.domain.ends_with('.');
    const bool is_own_host = cookie.domain == sender.host();
    if (!domain_matches(sender.host(), cookie.domain)) return std::nullopt;
    if (is_single_label && !is_own_host) return std::nullopt;
    host_only = is_single_label || net::ip_address::parse(cookie.domain).has_value();
  }
  time_point expires = time_point::max();  // a session cookie lives as long as the jar
  if (cookie.max_age) {
    expires = time + *cookie.max_age;
  } else if (cookie.expires) {
    expires = std::min(*cookie.expires, time + max_lifetime);
  }
  if (cookie.path.empty()) cookie.path = default_path(sender.path());
  if (host_only) cookie.domain = sender.host();
  return stored_cookie{.name = std::move(cookie.name),
                       .value = std::move(cookie.value),
                       .domain = std::move(cookie.domain),
                       .path = std::move(cookie.path),
                       .expires = expires,
                       .host_only = host_only,
                       .secure = cookie.secure};
}

// Whether the cookie would replace or precede a Secure cookie although it came without TLS. Such a
// response may be forged.
bool cookie_jar::hides_secure_cookie(const url& sender, const stored_cookie& cookie) const {
  if (is_over_tls(sender)) return false;
  return std::ranges::any_of(cookies_, [&](const stored_cookie& old_cookie) {
    return old_cookie.secure && old_cookie.name == cookie.name &&
           path_matches(cookie.path, old_cookie.path) &&
           (domain_matches(old_cookie.domain, cookie.domain) ||
            domain_matches(cookie.domain, old_cookie.domain));
  });
}

bool cookie_jar::receive(const url& sender, std::string_view set_cookie_header, time_point time) {
  auto cookie = received_cookie::parse(set_cookie_header);
  if (!cookie || cookie->name.size() + cookie->value.size() > options_.max_cookie_size) {
    return false;
  }
  auto new_cookie = accept(sender, *cookie, time);
  if (!new_cookie || hides_secure_cookie(sender, *new_cookie)) return false;
  store(*std::move(new_cookie), time);
  return true;
}

void cookie_jar::store(stored_cookie cookie, time_point time) {
  std::erase_if(cookies_,
                [&](const stored_cookie& old_cookie) { return old_cookie.expires <= time; });
  const auto match = std::ranges::find_if(cookies_, [&](const stored_cookie& old_cookie) {
    return old_cookie.name == cookie.name && old_cookie.domain == cookie.domain &&
           old_cookie.path == cookie.path && old_cookie.host_only == cookie.host_only;
  });
  if (match != cookies_.end()) {
    if (cookie.expires <= time) {
      cookies_.erase(match);
    } else {
      *match = std::move(cookie);  // keeps the position of the old cookie
    }
    return;
  }
  if (cookie.expires <= time || options_.max_cookies == 0 || options_.max_cookies_per_host == 0) {
    return;
  }
  if (evict_for(cookie)) cookies_.push_back(std::move(cookie));
}

// Makes room for a new cookie, or returns false. Cookies without Secure are evicted first (RFC
// 6265bis, 5.7): otherwise a forged response could evict Secure ones.
bool cookie_jar::evict_for(const stored_cookie& cookie) {
  const auto is_of_host = [&](const stored_cookie& old_cookie) {
    return old_cookie.domain == cookie.domain;
  };
  const auto host_count = static_cast<std::size_t>(std::ranges::count_if(cookies_, is_of_host));
  const bool host_is_full = host_count >= options_.max_cookies_per_host;
  if (!host_is_full && cookies_.size() < options_.max_cookies) return true;
  const auto is_candidate = [&](const stored_cookie& old_cookie) {
    return !host_is_full || is_of_host(old_cookie);
  };
  auto oldest_cookie = std::ranges::find_if(cookies_, [&](const stored_cookie& old_cookie) {
    return !old_cookie.secure && is_candidate(old_cookie);
  });
  if (oldest_cookie == cookies_.end()) {
    if (!cookie.secure) return false;
    oldest_cookie = std::ranges::find_if(cookies_, is_candidate);
  }
  cookies_.erase(oldest_cookie);
  return true;
}

std::string cookie_jar::header_for(const url& target, time_point time) {
  std::erase_if(cookies_, [&](const stored_cookie& cookie) { return cookie.expires <= time; });
  std::vector<const stored_cookie*> selection;
  for (const stored_cookie& cookie : cookies_) {
    const bool is_for_host = cookie.host_only ? cookie.domain == target.host()
                                              : domain_matches(target.host(), cookie.domain);
    if (!is_for_host || !path_matches(target.path(), cookie.path)) continue;
    if (cookie.secure && !is_over_tls(target)) continue;
    // Cookies with longer paths come first (RFC 6265, 5.4).
    const auto path_size = [](const stored_cookie* candidate) { return candidate->path.size(); };
    selection.insert(
        std::ranges::upper_bound(selection, cookie.path.size(), std::ranges::greater(), path_size),
        &cookie);
  }
  std::string header;
  for (const stored_cookie* cookie : selection) {
    if (!header.empty()) header += "; ";
    header.append(cookie->name).append("=").append(cookie->value);
  }
  return header;
}

}  // namespace gyre::http
