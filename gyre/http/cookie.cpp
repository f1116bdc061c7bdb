// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/cookie.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/cookie_text.hpp>
#include <gyre/http/request_target.hpp>

#include <algorithm>
#include <stdexcept>

namespace gyre::http {

void cookies::iterator::advance() noexcept {
  while (!rest_.empty() && pair_count_ < max_pairs) {
    std::string_view text = detail::trim(detail::take_until(rest_, ';'));
    if (!text.contains('=')) continue;
    pair_.name = detail::take_until(text, '=');
    pair_.value = text;
    if (!detail::is_token(pair_.name) || !detail::is_cookie_value(text)) continue;
    ++pair_count_;
    is_at_end_ = false;
    return;
  }
  rest_ = {};
  is_at_end_ = true;
}

std::optional<std::string_view> cookies::get(std::string_view name) const noexcept {
  for (const cookie_pair& pair : *this) {
    if (pair.name == name) return pair.value;
  }
  return std::nullopt;
}

void set_cookie::refuse(std::string_view reason) const {
  throw std::invalid_argument("gyre::http::set_cookie '" + name_ + "': " + std::string(reason));
}

set_cookie::set_cookie(std::string_view name, std::string_view value) : name_(name), value_(value) {
  if (!detail::is_token(name)) refuse("the name is not a token");
  if (!detail::is_cookie_value(value)) {
    refuse("the value has a character that is not allowed; encode it, such as percent-encoded");
  }
  if (name.size() + value.size() > max_size) refuse("the name and value exceed 4096 bytes");
}

set_cookie set_cookie::deletion(std::string_view name) {
  set_cookie result(name, "");
  result.max_age(std::chrono::seconds(0));
  return result;
}

set_cookie& set_cookie::path(std::string_view path) {
  const bool is_allowed = std::ranges::all_of(path, [](char character) {
    return character >= ' ' && character < '\x7f' && character != ';';
  });
  if (!path.starts_with('/') || !is_allowed || path.back() == ' ' || path.size() > max_size / 4) {
    refuse("the path does not begin with '/', is too long, or has characters that are not allowed");
  }
  path_ = path;
  return *this;
}

set_cookie& set_cookie::domain(std::string_view domain) {
  const auto host = authority::parse(domain);
  if (!host || host->port || host->is_ipv6) refuse("the domain is no name of a host");
  domain_ = domain;
  return *this;
}

set_cookie& set_cookie::max_age(duration age) noexcept {
  max_age_ = std::chrono::ceil<std::chrono::seconds>(age);
  return *this;
}
set_cookie& set_cookie::secure(bool only_over_tls) noexcept {
  secure_ = only_over_tls;
  return *this;
}
set_cookie& set_cookie::http_only(bool hidden_from_scripts) noexcept {
  http_only_ = hidden_from_scripts;
  return *this;
}
set_cookie& set_cookie::same_site(gyre::http::same_site sites) noexcept {
  same_site_ = sites;
  return *this;
}

void set_cookie::check() const {
  if (same_site_ == gyre::http::same_site::none && !secure_) {
    refuse("browsers refuse SameSite=None without Secure");
  }
  const detail::cookie_prefix prefix = detail::prefix_of(name_);
  if (prefix != detail::cookie_prefix::none && !secure_) refuse("its name demands Secure");
  if (prefix == detail::cookie_prefix::host && (!domain_.empty() || path_ != "/")) {
    refuse("its name demands the path '/' and no domain");
  }
}

std::string set_cookie::to_string() const {
  check();
  std::string text = name_;
  text.append("=").append(value_).append("; Path=").append(path_);
  if (!domain_.empty()) text.append("; Domain=").append(domain_);
  if (max_age_) text.append("; Max-Age=").append(std::to_string(max_age_->count()));
  if (secure_) text += "; Secure";
  if (http_only_) text += "; HttpOnly";
  switch (same_site_) {
    case gyre::http::same_site::strict: text += "; SameSite=Strict"; break;
    case gyre::http::same_site::lax: text += "; SameSite=Lax"; break;
    case gyre::http::same_site::none: text += "; SameSite=None"; break;
  }
  return text;
}

}  // namespace gyre::http
