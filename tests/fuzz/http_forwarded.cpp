// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the client that a trusted proxy names. A client sends any fields, and a proxy adds
// its element: no client may then pass for another.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/http/detail/request_origin.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gyre::fuzz::require;
  using gyre::http::field;
  using gyre::http::field_list;
  using gyre::http::forwarding_fields;
  using gyre::net::ip_address;
  gyre::fuzz::decisions decide(data, size);
  const bool is_standard = decide.flip();
  const bool has_own_line = decide.flip();
  const gyre::http::forwarding_options options{
      .trusted = {"10.0.0.0/8"},
      .fields = is_standard ? forwarding_fields::forwarded : forwarding_fields::x_forwarded};
  const gyre::net::endpoint proxy(ip_address::v4(10, 0, 0, 1), 1);
  const ip_address client = ip_address::v4(192, 0, 2, 7);
  const std::string name = is_standard ? "forwarded" : "x-forwarded-for";
  const std::string element = (is_standard ? "for=" : "") + client.to_string();
  std::string sent;
  if (decide.flip()) {
    sent = decide.rest();
  } else {  // pieces of the grammar
    static constexpr std::array pieces = {"for=",  "proto=https", "host=a", ";",   ",",       "\"",
                                          "\\",    "10.1.1.1",    "[::1]",  ":80", "6.6.6.6", " ",
                                          "by=_x", "unknown",     "=",      "\t"};
    for (std::size_t count = decide.below(30); count > 0; --count) {
      sent += pieces[decide.below(pieces.size())];
    }
  }

  const auto origin_of = [&](const gyre::net::endpoint& peer, const std::vector<field>& fields) {
    const auto origin = gyre::http::detail::find_origin(options, peer, field_list(fields));
    require(origin.scheme.empty() || origin.scheme == "http" || origin.scheme == "https");
    return *origin.address;
  };
  const std::string joined = sent + ", " + element;
  const std::vector<field> fields = has_own_line ? std::vector<field>{{name, sent}, {name, element}}
                                                 : std::vector<field>{{name, joined}};
  const ip_address found = origin_of(proxy, fields);
  // A client can only break the grammar of a line that the proxy extends.
  const bool may_be_unknown = is_standard && !has_own_line;
  require(found == client || (may_be_unknown && found == proxy.address()));
  // Without the proxy, the fields count for nothing.
  const gyre::net::endpoint stranger(client, 2);
  require(origin_of(stranger, {{name, sent}}) == client);
  origin_of(proxy, {{name, sent}});
  return 0;
}
