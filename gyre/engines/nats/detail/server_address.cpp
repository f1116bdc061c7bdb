// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/server_address.hpp>

#include <gyre/base/detail/ascii.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace gyre::nats::detail {
namespace {

constexpr std::string_view default_port = ":4222";

[[noreturn]] void refuse_server(std::string_view text, const char* reason) {
  throw std::system_error(std::make_error_code(std::errc::invalid_argument),
                          "gyre::nats::client: server '" + std::string(text) + "': " + reason);
}

std::string percent_decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] != '%' || i + 2 >= text.size()) continue;
    const int high_digit = gyre::detail::hex_value(text[i + 1]);
    const int low_digit = gyre::detail::hex_value(text[i + 2]);
    if (high_digit < 0 || low_digit < 0) continue;
    result.back() = static_cast<char>(high_digit * 16 + low_digit);
    i += 2;
  }
  return result;
}

bool has_port(std::string_view host) noexcept {
  if (host.starts_with("unix:")) return true;
  const std::size_t colon = host.rfind(':');
  if (colon == std::string_view::npos) return false;
  if (host.starts_with('[')) return colon > host.rfind(']');
  return true;
}

}  // namespace

server_address server_address::parse(std::string_view text) {
  constexpr std::string_view scheme_end = "://";
  std::string_view rest = text;
  std::string scheme = "nats";
  if (const std::size_t end = rest.find(scheme_end); end != std::string_view::npos) {
    scheme = gyre::detail::to_lower(rest.substr(0, end));
    rest.remove_prefix(end + scheme_end.size());
  }
  const std::size_t position = rest.rfind('@');
  const std::string_view user = position == std::string_view::npos ? "" : rest.substr(0, position);
  if (position != std::string_view::npos) rest.remove_prefix(position + 1);
  const std::string printable_text(rest);
  if (scheme != "nats" && scheme != "tls")
    refuse_server(printable_text, "the scheme must be nats or tls");
  if (rest.ends_with('/') && !rest.starts_with("unix:")) rest.remove_suffix(1);
  if (rest.empty()) refuse_server(printable_text, "a host is missing");

  std::string host(rest);
  if (!has_port(host)) host += default_port;
  server_address result{.server = net::host_port(host), .demands_tls = scheme == "tls"};
  if (const std::size_t colon = user.find(':'); colon != std::string_view::npos) {
    result.user = percent_decoded(user.substr(0, colon));
    result.password = percent_decoded(user.substr(colon + 1));
  } else {
    result.token = percent_decoded(user);
  }
  return result;
}

std::vector<server_address> server_address::parse_all(const std::vector<std::string>& texts) {
  std::vector<server_address> servers;
  for (const std::string_view text : texts) {
    for (std::size_t first = 0; first <= text.size();) {
      const std::size_t end = std::min(text.find(',', first), text.size());
      const std::string_view part = gyre::detail::trim(text.substr(first, end - first));
      first = end + 1;
      if (!part.empty()) servers.push_back(parse(part));
    }
  }
  if (servers.empty()) throw std::invalid_argument("gyre::nats::client: needs a server");
  return servers;
}

std::string server_address::host() const {
  if (server.is_name()) return server.host();
  const std::string text = server.to_string();
  std::string host = text.substr(0, text.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

}  // namespace gyre::nats::detail
