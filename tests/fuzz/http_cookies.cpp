// SPDX-License-Identifier: Apache-2.0
// Fuzz target: cookies. Pairs that are read can be set again, and a jar keeps its limits and sends
// what a server reads.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/http/cookie.hpp>
#include <gyre/http/cookie_jar.hpp>
#include <gyre/http/detail/cookie_text.hpp>
#include <gyre/http/url.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
using gyre::http::cookies;

void check_header(std::string_view header) {
  const cookies view(header);
  std::size_t count = 0;
  for (const auto& each : view) {
    require(++count <= cookies::max_pairs);
    require(view.get(each.name).has_value());
    try {
      const std::string set =
          gyre::http::set_cookie(each.name, each.value).secure(true).to_string();
      require(gyre::http::received_cookie::parse(set)->value == each.value);
    } catch (const std::invalid_argument&) {
      require(each.name.size() + each.value.size() > gyre::http::set_cookie::max_size);
    }
  }
}

void check_jar(decisions& decide) {
  static constexpr std::array<std::string_view, 20> pieces{
      "a=1",      "b=",         "; ",         ";Secure",   ";Path=/",
      ";Path=/x", ";Domain=",   "a.b",        ".",         "b",
      "=",        ";Max-Age=0", ";Max-Age=9", ";Expires=", "6 Nov 1994 08:49:37",
      "__Host-",  "x",          "\"",         "\n",        "c=2"};
  static constexpr std::array<std::string_view, 5> urls{
      "http://a.b/", "https://a.b/x/y", "https://c.a.b/x", "http://1.2.3.4/", "https://b/"};
  gyre::http::cookie_jar jar({.max_cookies = 5, .max_cookies_per_host = 3, .max_cookie_size = 64});
  std::chrono::sys_seconds now(std::chrono::seconds(1'000'000'000));
  while (!decide.empty()) {
    const auto where = gyre::http::url::parse(urls[decide.below(urls.size())]).value();
    std::string header;
    for (std::size_t count = decide.below(8); count > 0; --count) {
      header += pieces[decide.below(pieces.size())];
    }
    if (decide.below(8) == 0) header += decide.text(3);
    jar.receive(where, header, now);
    require(jar.size() <= 5);
    const std::string sent = jar.header_for(where, now);
    require(sent.find_first_of("\r\n") == sent.npos);
    now += std::chrono::seconds(decide.below(4));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  switch (decide.below(3)) {
    case 0: check_header(decide.rest()); break;
    case 1: static_cast<void>(gyre::http::detail::parse_cookie_date(decide.rest())); break;
    default: check_jar(decide);
  }
  return 0;
}
