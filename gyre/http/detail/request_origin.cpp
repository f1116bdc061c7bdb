// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/request_origin.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/host_list.hpp>

#include <algorithm>
#include <cstdint>

namespace gyre::http::detail {
namespace {

// Removes ":port" from a text that is "address:port", "[address]:port" or "[address]"; returns the
// address without brackets, or nothing for another form.
std::optional<std::string_view> without_port(std::string_view text) noexcept {
  std::string_view address = text, port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    address = text.substr(1, end - 1);
    port = text.substr(end + 1);
    if (!address.contains(':')) return std::nullopt;
  } else if (std::ranges::count(text, ':') == 1) {
    address = text.substr(0, text.find(':'));
    port = text.substr(address.size());
  }
  const bool has_port = port.starts_with(':');
  if (has_port && !gyre::detail::parse_decimal<std::uint16_t>(port.substr(1))) return std::nullopt;
  if (!has_port && !port.empty()) return std::nullopt;
  return address;
}

// Reads an address, with or without a port. A scope is refused, because its interface is one of
// another machine.
std::optional<net::ip_address> read_address(std::string_view text) noexcept {
  const auto address = without_port(text);
  if (!address || address->contains('%')) return std::nullopt;
  const auto result = net::ip_address::parse(*address);
  if (!result) return std::nullopt;
  return result->unmapped();
}

std::string_view read_scheme(std::string_view text) noexcept {
  if (equals_ignoring_case(text, "https")) return "https";
  if (equals_ignoring_case(text, "http")) return "http";
  return {};
}

std::string_view read_host(std::string_view text) noexcept {
  return is_host_field(text) ? text : std::string_view();
}

bool is_trusted(const forwarding_options& options, const net::ip_address& address) noexcept {
  return std::ranges::any_of(
      options.trusted, [&](const net::ip_network& network) { return network.contains(address); });
}

// Finds the client in a list that is added from its beginning to its end: the last element that is
// no trusted proxy, or, if all are trusted, the first.
class origin_search {
 public:
  explicit origin_search(const forwarding_options& options) noexcept : options_(options) {}

  /// Adds an element. Without an address it names a client that is not known.
  void add(const std::optional<net::ip_address>& address, std::string_view scheme,
           std::string_view host) noexcept {
    const bool is_proxy = address && is_trusted(options_, *address);
    // The element after one without an address is the proxy that has sent it.
    if (std::exchange(needs_address_, false) && is_proxy) result_->address = address;
    if (is_proxy && result_) return;
    request_origin& client = result_.emplace();
    if (address) client.address.emplace(*address);
    client.scheme = scheme;
    client.host = host;
    needs_address_ = !address;
  }
  /// Adds a part of the list that cannot be read.
  void add_unreadable() noexcept { add(std::nullopt, {}, {}); }

  /// Returns the client, or nothing for an empty list. The address is `peer` if the last element
  /// names none.
  std::optional<request_origin> finish(const std::optional<net::ip_address>& peer) noexcept {
    if (needs_address_) result_->address = peer;
    return result_;
  }

 private:
  const forwarding_options& options_;
  std::optional<request_origin> result_;
  bool needs_address_ = false;
};

// --- Forwarded (RFC 7239, 4) ---

// Removes and returns a token or a quoted string at the beginning of `text`, without its quotes.
// Nothing if there is neither. A quoted string with an escape is replaced by "\", which no address,
// scheme or host contains.
std::optional<std::string_view> take_value(std::string_view& text) noexcept {
  if (!text.starts_with('"')) {
    const std::string_view token = take_while(in_token, text);
    if (token.empty()) return std::nullopt;
    return token;
  }
  bool has_escape = false;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      has_escape = true;
      ++i;
    } else if (text[i] == '"') {
      const std::string_view value = has_escape ? "\\" : text.substr(1, i - 1);
      text.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

void skip_blanks(std::string_view& text) noexcept {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
}

struct forwarded_element {
  std::optional<std::string_view> client, scheme, host, proxy;
};

// Removes a pair from the beginning of `text`, and stores its value. Returns false for a pair that
// breaks the grammar or repeats an earlier one.
bool take_pair(std::string_view& text, forwarded_element& element) noexcept {
  const std::string_view name = take_while(in_token, text);
  if (name.empty() || !text.starts_with('=')) return false;
  text.remove_prefix(1);
  const auto value = take_value(text);
  if (!value) return false;
  std::optional<std::string_view>* parameter = nullptr;
  if (equals_lower(name, "for")) parameter = &element.client;
  if (equals_lower(name, "proto")) parameter = &element.scheme;
  if (equals_lower(name, "host")) parameter = &element.host;
  if (equals_lower(name, "by")) parameter = &element.proxy;
  if (parameter == nullptr) return true;
  if (parameter->has_value()) return false;
  *parameter = value;
  return true;
}

// Adds the elements of one line. Returns false, after having added some of them, if the line breaks
// the grammar.
bool add_line(std::string_view line, origin_search& search) noexcept {
  while (true) {
    skip_blanks(line);
    forwarded_element element;
    bool is_empty = true;
    while (!line.empty() && line.front() != ',') {
      if (line.front() != ';' && !take_pair(line, element)) return false;
      is_empty = false;
      skip_blanks(line);
      if (line.empty() || line.front() == ',') break;
      if (line.front() != ';') return false;
      line.remove_prefix(1);
      skip_blanks(line);
    }
    if (!is_empty) {
      search.add(read_address(element.client.value_or("")),
                 read_scheme(element.scheme.value_or("")), read_host(element.host.value_or("")));
    }
    if (line.empty()) return true;
    line.remove_prefix(1);
  }
}

std::optional<request_origin> search_forwarded(const forwarding_options& options,
                                               const std::optional<net::ip_address>& peer,
                                               field_list fields) noexcept {
  origin_search search(options);
  for (const field& field : fields) {
    if (equals_lower(field.name, "forwarded") && !add_line(field.value, search)) {
      search.add_unreadable();
    }
  }
  return search.finish(peer);
}

// --- X-Forwarded-… ---

// Returns the last element of the list in the last field called `name`.
std::string_view last_of(field_list fields, std::string_view name) noexcept {
  std::string_view value;
  for (const field& field : fields) {
    if (equals_lower(field.name, name)) value = field.value;
  }
  const std::size_t comma = value.rfind(',');
  return trim(comma == std::string_view::npos ? value : value.substr(comma + 1));
}

std::optional<request_origin> search_x_forwarded(const forwarding_options& options,
                                                 const std::optional<net::ip_address>& peer,
                                                 field_list fields) noexcept {
  origin_search search(options);
  for (const field& field : fields) {
    if (!equals_lower(field.name, "x-forwarded-for")) continue;
    std::string_view list = field.value;
    while (!list.empty()) {
      const std::string_view element = trim(take_until(list, ','));
      if (!element.empty()) search.add(read_address(element), {}, {});
    }
  }
  request_origin origin = search.finish(peer).value_or(request_origin{.address = peer});
  origin.scheme = read_scheme(last_of(fields, "x-forwarded-proto"));
  origin.host = read_host(last_of(fields, "x-forwarded-host"));
  return origin;
}

}  // namespace

bool is_trusted(const forwarding_options& options, const net::endpoint& peer) noexcept {
  if (!peer.is_ip()) return options.trusts_unix_peers;
  return !options.trusted.empty() && is_trusted(options, peer.address());
}

request_origin find_origin(const forwarding_options& options, const net::endpoint& peer,
                           field_list fields) noexcept {
  std::optional<net::ip_address> peer_address;
  if (peer.is_ip()) peer_address = peer.address().unmapped();
  std::optional<request_origin> origin;
  if (is_trusted(options, peer)) {
    const bool is_standard = options.fields == forwarding_fields::forwarded;
    origin = is_standard ? search_forwarded(options, peer_address, fields)
                         : search_x_forwarded(options, peer_address, fields);
  }
  return origin.value_or(request_origin{.address = peer_address});
}

}  // namespace gyre::http::detail
