// SPDX-License-Identifier: Apache-2.0
// Fuzz target: addresses, endpoints and hosts files. Parsing agrees with a simple reference parser,
// and formatted values parse to the same value.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/net/address.hpp>
#include <gyre/net/detail/name_engine.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/host_port.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
using gyre::net::endpoint;
using gyre::net::ip_address;

// Joins pieces of addresses, so that some of the texts are addresses.
std::string make_text(decisions& decide) {
  static constexpr std::array<std::string_view, 32> pieces{
      "1.2.3.4", "0.0.0.0",   "255.",   "256",   "01",  "::",     "::1", ":",
      "ffff:",   "2001:",     "fe80",   "%1",    "%lo", "[",      "]",   "unix:",
      "@",       "/a",        ":80",    ".",     ":0",  ":65536", "\t",  "\n",
      "*",       "localhost", "a.test", ":http", "-",   "_",      "\0",  ":domain"};
  std::string text;
  for (std::size_t count = decide.below(12); count > 0; --count) {
    if (decide.below(8) == 0) {
      text += decide.text(1 + decide.below(3));
    } else {
      text += pieces[decide.below(pieces.size())];
    }
  }
  return text;
}

std::optional<ip_address> plain_v4(std::string_view text) {
  ip_address::v4_bytes bytes{};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0 || digits > 3 || (digits > 1 && text[0] == '0')) return std::nullopt;
    unsigned number = 0;
    for (const char each : text.substr(0, digits)) number = number * 10 + unsigned(each - '0');
    if (number > 255) return std::nullopt;
    bytes[i] = static_cast<std::uint8_t>(number);
    text.remove_prefix(digits);
    if (i < 3 && !text.starts_with('.')) return std::nullopt;
    if (i < 3) text.remove_prefix(1);
  }
  if (!text.empty()) return std::nullopt;
  return ip_address(bytes);
}

void check_address(decisions& decide) {
  const std::string text = make_text(decide);
  const auto parsed = ip_address::parse(text);
  if (!text.contains(':')) {
    const auto plain = plain_v4(text);
    require(parsed.has_value() == plain.has_value());
    if (plain) require(*parsed == *plain);
  }
  if (parsed) require(ip_address::parse(parsed->to_string()) == *parsed);

  ip_address::v6_bytes bytes{};
  // Byte by byte: GCC 12 warns of a vectorised loop that it believes to exceed the bytes.
  for (std::size_t i = 0; i != bytes.size(); ++i) bytes.at(i) = decide.byte();
  const ip_address any(bytes, static_cast<std::uint32_t>(decide.below(3)));
  require(ip_address::parse(any.to_string()) == any);
}

void check_endpoint(decisions& decide) {
  const auto parsed = endpoint::parse(make_text(decide));
  if (!parsed) return;
  require(endpoint::parse(parsed->to_string()) == *parsed);
  require(endpoint::from_sockaddr(parsed->data(), parsed->size()) == *parsed);
}

// A text is an endpoint, a name with a port, or neither; and the two readers agree.
void check_host_port(decisions& decide) {
  const std::string text = make_text(decide);
  const auto direct = endpoint::parse(text);
  const auto parsed = gyre::net::host_port::parse(text);
  require(parsed || !direct);
  if (!parsed) return;
  require(gyre::net::host_port::parse(parsed->to_string()) == *parsed);
  if (parsed->is_name()) {
    require(!parsed->host().empty() && !gyre::net::ip_address::parse(parsed->host()));
    require(parsed->direct() == endpoint());
    for (const endpoint& each : parsed->known_endpoints()) {
      require(each.address().is_loopback() && each.port() == parsed->port());
    }
    // Only the names of this machine are endpoints.
    require(!direct || (!parsed->known_endpoints().empty() && direct->port() == parsed->port()));
  } else {
    require(direct == parsed->direct());
    require(parsed->known_endpoints() == std::vector<endpoint>{*direct});
  }
}

// Checks socket addresses, valid ones and ones that no kernel would write.
void check_sockaddr(decisions& decide) {
  static constexpr std::array<sa_family_t, 4> families{AF_INET, AF_INET6, AF_UNIX, AF_UNSPEC};
  const sa_family_t family = families[decide.below(families.size())];
  const std::string_view rest = decide.rest();
  sockaddr_storage raw{};
  raw.ss_family = family;
  const std::size_t length = std::min(rest.size(), sizeof raw - sizeof family);
  std::memcpy(reinterpret_cast<char*>(&raw) + sizeof family, rest.data(), length);
  const auto size = static_cast<socklen_t>(sizeof family + length);
  try {
    const auto read = endpoint::from_sockaddr(reinterpret_cast<const sockaddr*>(&raw), size);
    const std::string text = read.to_string();
    const bool only_the_kernels = read.path().starts_with('@') || read.path().size() > 107 ||
                                  read.abstract_name().size() > 107;
    if (!only_the_kernels) require(endpoint::parse(text) == read);
  } catch (const std::system_error&) {
    require(family != AF_UNIX || size > endpoint::capacity());
  }
}

void check_hosts(decisions& decide) {
  std::string text;
  while (!decide.empty()) text += make_text(decide) + (decide.flip() ? " Name" : "\n");
  const auto hosts = gyre::net::detail::parse_hosts(text);
  std::string again;
  for (const auto& [name, addresses] : hosts) {
    require(!addresses.empty() &&
            !std::ranges::any_of(name, [](char each) { return each >= 'A' && each <= 'Z'; }));
    // Names such as "." and "x.." are never looked up.
    if (name.empty() || name.ends_with('.')) return;
    for (const ip_address& each : addresses) again += each.to_string() + '\t' + name + '\n';
  }
  require(gyre::net::detail::parse_hosts(again) == hosts);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  switch (decide.below(5)) {
    case 0: check_address(decide); break;
    case 1: check_endpoint(decide); break;
    case 2: check_sockaddr(decide); break;
    case 3: check_host_port(decide); break;
    default: check_hosts(decide);
  }
  return 0;
}
