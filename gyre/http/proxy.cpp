// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/proxy.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/error.hpp>
#include <gyre/net/address.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <system_error>

namespace gyre::http {
namespace {

const char* read_first_set(std::initializer_list<const char*> names, const char*& name) {
  for (const char* const character : names) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): documented
    const char* const value = std::getenv(character);
    if (value != nullptr && *value != '\0') {
      name = character;
      return value;
    }
  }
  return nullptr;
}

std::optional<url> read_proxy(std::initializer_list<const char*> names) {
  const char* name = nullptr;
  const char* const value = read_first_set(names, name);
  if (value == nullptr) return std::nullopt;
  std::string text = value;
  if (!text.contains("://")) text.insert(0, "http://");
  auto address = url::parse(text);
  const std::string context = std::string("http::proxy_from_environment: ") + name;
  if (!address) throw std::system_error(address.error(), context);
  if (address->scheme() != "http") {
    throw std::system_error(make_error_code(errc::unsupported_scheme), context);
  }
  return *std::move(address);
}

// The host, without brackets, and the port of a URL; and its address, if the host is one.
struct destination {
  std::string_view host;
  std::string_view port;
  std::optional<net::ip_address> address;
};

std::optional<net::ip_address> address_of(std::string_view text) noexcept {
  const auto address = net::ip_address::parse(text);
  if (!address) return std::nullopt;
  return address->unmapped();
}

// Whether the block, such as "10.0.0.0/8", contains the address.
bool is_in_block(const net::ip_address& address, std::string_view block) noexcept {
  const auto network = net::ip_address::parse(detail::take_until(block, '/'));
  const auto size = gyre::detail::parse_decimal<unsigned>(block);
  if (!network || !size || network->is_v4() != address.is_v4()) return false;
  if (*size > 8 * address.bytes().size()) return false;
  unsigned bits = *size;
  for (std::size_t index = 0; bits != 0; ++index) {
    const unsigned bit_count = std::min(bits, 8U);
    const unsigned difference = network->bytes()[index] ^ address.bytes()[index];
    if (difference >> (8 - bit_count) != 0) return false;
    bits -= bit_count;
  }
  return true;
}

bool matches(std::string_view pattern, const destination& target) noexcept {
  if (pattern == "*") return true;
  if (pattern.contains('/')) return target.address && is_in_block(*target.address, pattern);
  const std::size_t colon = pattern.rfind(':');
  // An IPv6 address without brackets has several colons and no port.
  const bool has_port = colon != std::string_view::npos && pattern.find(':') == colon;
  if (pattern.starts_with('[')) {
    const std::size_t end = pattern.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view rest = pattern.substr(end + 1);
    if (!rest.empty() && (rest[0] != ':' || rest.substr(1) != target.port)) return false;
    pattern = pattern.substr(1, end - 1);
  } else if (has_port) {
    if (pattern.substr(colon + 1) != target.port) return false;
    pattern = pattern.substr(0, colon);
  }
  if (target.address) return address_of(pattern) == target.address;
  if (pattern.starts_with("*.")) pattern.remove_prefix(1);
  if (pattern.starts_with('.')) pattern.remove_prefix(1);
  if (pattern.ends_with('.')) pattern.remove_suffix(1);
  if (pattern.empty() || target.host.size() < pattern.size()) return false;
  const std::string_view tail = target.host.substr(target.host.size() - pattern.size());
  return detail::equals_ignoring_case(tail, pattern) &&
         (tail.size() == target.host.size() ||
          target.host[target.host.size() - tail.size() - 1] == '.');
}

}  // namespace

const url* proxy_settings::proxy_for(const url& target) const noexcept {
  const std::optional<url>& proxy = target.scheme() == "https" ? https : http;
  if (!proxy) return nullptr;
  std::array<char, 8> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), target.port());
  const std::string_view port(digits.data(), static_cast<std::size_t>(end.ptr - digits.data()));
  std::string_view host = target.host();
  if (host.ends_with('.')) host.remove_suffix(1);
  const destination destination_of_url{.host = host, .port = port, .address = address_of(host)};
  const bool is_excluded = std::ranges::any_of(no_proxy, [&](const std::string& exception) {
    return matches(exception, destination_of_url);
  });
  return is_excluded ? nullptr : &*proxy;
}

proxy_settings proxy_from_environment() {
  proxy_settings settings;
  settings.http = read_proxy({"http_proxy"});
  settings.https = read_proxy({"https_proxy", "HTTPS_PROXY"});
  const char* name = nullptr;
  const char* const exceptions = read_first_set({"no_proxy", "NO_PROXY"}, name);
  std::string_view list = exceptions != nullptr ? exceptions : "";
  while (!list.empty()) {
    std::string_view element = list.substr(0, list.find(','));
    list.remove_prefix(std::min(element.size() + 1, list.size()));
    while (element.starts_with(' ')) element.remove_prefix(1);
    while (element.ends_with(' ')) element.remove_suffix(1);
    if (!element.empty()) settings.no_proxy.emplace_back(element);
  }
  return settings;
}

}  // namespace gyre::http
