// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/url.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/format_error.hpp>

#include <algorithm>

namespace gyre::http {
namespace {

std::error_code check(std::string_view text, detail::character_class characters) {
  const auto is_allowed = [&](char character) {
    return character == '%' || detail::is(characters, character);
  };
  if (!std::ranges::all_of(text, is_allowed)) return format_errc::bad_character;
  if (!is_percent_encoded(text)) return format_errc::bad_percent_encoding;
  return {};
}

// Returns the scheme at the beginning of a URL, without ':'; empty if there is none.
std::string_view scheme_of(std::string_view text) {
  const std::string_view scheme = text.substr(0, text.find_first_of(":/?#"));
  const bool ends_in_colon = scheme.size() < text.size() && text[scheme.size()] == ':';
  if (scheme.empty() || !ends_in_colon || !detail::all_are(detail::in_scheme, scheme)) return {};
  return detail::is_letter(scheme.front()) ? scheme : std::string_view();
}

}  // namespace

std::uint16_t default_port(std::string_view scheme) noexcept {
  if (scheme == "http" || scheme == "ws") return 80;
  if (scheme == "https" || scheme == "wss") return 443;
  return 0;
}

std::string remove_dot_segments(std::string_view path) {
  std::string result;
  result.reserve(path.size());
  while (!path.empty()) {
    const std::size_t end = path.find('/', path.starts_with('/') ? 1 : 0);
    const std::string_view segment = path.substr(0, end);  // includes the '/' before the segment
    path.remove_prefix(segment.size());
    const std::string_view name = segment.substr(segment.starts_with('/') ? 1 : 0);
    const bool is_parent = decodes_to(name, "..");
    if (!is_parent && !decodes_to(name, ".")) {
      result += segment;
      continue;
    }
    if (is_parent) {
      const std::size_t last = result.rfind('/');
      result.resize(last == result.npos ? 0 : last);
    }
    if (path.empty() && segment.starts_with('/')) result += '/';
  }
  return result;
}

std::error_code url::read_authority(std::string_view text) {
  const std::size_t position = text.find('@');
  if (position != text.npos) {
    user_info_ = text.substr(0, position);
    if (const auto error = check(user_info_, detail::in_user_info)) return error;
    text.remove_prefix(position + 1);
  }
  const auto server = gyre::http::authority::parse(text);
  if (!server) return server.error();
  host_ = detail::to_lower(server->host);
  port_ = server->port.value_or(0);
  return {};
}

// Reads the path, query and fragment. A relative path is appended to `directory`, which ends in
// '/'.
std::error_code url::read_rest(std::string_view text, std::string_view directory) {
  std::string_view text_before_fragment = detail::take_until(text, '#');
  fragment_ = text;
  has_query_ = text_before_fragment.contains('?');
  const std::string_view path = detail::take_until(text_before_fragment, '?');
  query_ = text_before_fragment;
  if (const auto error = check(path, detail::in_path)) return error;
  if (const auto error = check(query_, detail::in_query)) return error;
  if (const auto error = check(fragment_, detail::in_query)) return error;
  path_ = path.starts_with('/') ? remove_dot_segments(path)
                                : remove_dot_segments(std::string(directory).append(path));
  if (path_.empty()) path_ += '/';
  return {};
}

std::expected<url, std::error_code> url::parse(std::string_view text) {
  if (text.size() > max_size) return std::unexpected(make_error_code(format_errc::too_long));
  const std::string_view scheme = scheme_of(text);
  if (scheme.empty() || !text.substr(scheme.size()).starts_with("://")) {
    return std::unexpected(make_error_code(format_errc::no_scheme));
  }
  url result;
  result.scheme_ = detail::to_lower(scheme);
  text.remove_prefix(scheme.size() + 3);
  const std::string_view server = text.substr(0, text.find_first_of("/?#"));
  if (const auto error = result.read_authority(server)) return std::unexpected(error);
  text.remove_prefix(server.size());
  if (const auto error = result.read_rest(text, "/")) return std::unexpected(error);
  return result;
}

std::expected<url, std::error_code> url::resolve(std::string_view reference) const {
  if (!scheme_of(reference).empty()) {
    auto absolute = parse(reference);
    if (absolute && absolute->user_info_.empty() && has_origin_of(*absolute)) {
      absolute->user_info_ = user_info_;
    }
    return absolute;
  }
  if (reference.starts_with("//")) return resolve(scheme_ + ':' + std::string(reference));
  if (reference.size() > max_size) return std::unexpected(make_error_code(format_errc::too_long));
  url result = *this;
  const std::string_view path = reference.substr(0, reference.find_first_of("?#"));
  const std::string_view base_path = path_;
  const std::string_view directory =
      path.empty() ? base_path : base_path.substr(0, base_path.rfind('/') + 1);
  if (const auto error = result.read_rest(reference, directory)) return std::unexpected(error);
  if (path.empty() && !result.has_query_) {
    result.query_ = query_;
    result.has_query_ = has_query_;
  }
  return result;
}

std::string url::target() const {
  std::string text = path_;
  if (has_query_) text.append("?").append(query_);
  return text;
}

std::string url::authority() const {
  std::string text = is_ipv6() ? '[' + host_ + ']' : host_;
  if (port_ != 0 && port_ != default_port(scheme_)) text.append(":").append(std::to_string(port_));
  return text;
}

std::string url::to_string() const {
  std::string text = scheme_ + "://" + authority() + target();
  if (!fragment_.empty()) text.append("#").append(fragment_);
  return text;
}

}  // namespace gyre::http
