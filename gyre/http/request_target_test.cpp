// SPDX-License-Identifier: Apache-2.0
// Tests of request targets and authorities.
#include <gyre/http/request_target.hpp>

#include <gyre/http/format_error.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace request_target_test {
namespace {

using gyre::http::authority;
using gyre::http::format_errc;
using gyre::http::method;
using gyre::http::request_target;
using gyre::http::target_form;

request_target parsed(std::string_view text, method which = method::get) {
  return request_target::parse(which, text).value();
}

std::error_code error_of(std::string_view text, method which = method::get) {
  const auto target = request_target::parse(which, text);
  return target ? std::error_code() : target.error();
}

TEST(RequestTarget, OriginFormIsAPathAndAQuery) {
  const request_target target = parsed("/a%2Fb/c?x=1?y");
  EXPECT_EQ(target.form(), target_form::origin);
  EXPECT_EQ(target.path(), "/a%2Fb/c");
  EXPECT_EQ(target.query(), "x=1?y");
  EXPECT_TRUE(target.has_query());
  EXPECT_FALSE(parsed("/a").has_query());
  EXPECT_TRUE(parsed("/a?").has_query());
  EXPECT_EQ(parsed("//host/path").path(), "//host/path");
}

TEST(RequestTarget, AbsoluteFormHasAHost) {
  const request_target target = parsed("http://Example.org:8080/a?b");
  EXPECT_EQ(target.form(), target_form::absolute);
  EXPECT_EQ(target.scheme(), "http");
  EXPECT_EQ(target.authority().host, "Example.org");
  EXPECT_EQ(target.authority().port, 8080);
  EXPECT_EQ(target.path(), "/a");
  EXPECT_EQ(target.query(), "b");
  EXPECT_EQ(parsed("https://example.org").path(), "/");
  EXPECT_EQ(parsed("https://example.org?q").path(), "/");
  EXPECT_EQ(parsed("https://example.org?q").query(), "q");
  EXPECT_EQ(parsed("http://example.org", method::options).path(), "*");
  EXPECT_EQ(parsed("http://[2001:db8::7]/").authority().host, "2001:db8::7");
}

TEST(RequestTarget, OtherFormsBelongToTheirMethods) {
  const request_target target = parsed("example.org:443", method::connect);
  EXPECT_EQ(target.form(), target_form::authority);
  EXPECT_EQ(target.authority(), (authority{.host = "example.org", .port = 443}));
  EXPECT_EQ(parsed("*", method::options).form(), target_form::asterisk);
  EXPECT_EQ(parsed("*", method::options).path(), "*");
  EXPECT_EQ(error_of("*"), format_errc::bad_target);
  EXPECT_EQ(error_of("example.org", method::connect), format_errc::bad_port);
  EXPECT_EQ(error_of("example.org:", method::connect), format_errc::bad_port);
  EXPECT_TRUE(error_of("/", method::connect));
  EXPECT_TRUE(error_of("http://example.org:80/", method::connect));
  EXPECT_EQ(error_of("example.org:443"), format_errc::bad_target);
}

TEST(RequestTarget, MalformedOnesAreRefused) {
  EXPECT_EQ(error_of(""), format_errc::bad_target);
  EXPECT_EQ(error_of("a"), format_errc::bad_target);
  EXPECT_EQ(error_of("/a b"), format_errc::bad_character);
  EXPECT_EQ(error_of("/a#b"), format_errc::bad_character);
  EXPECT_EQ(error_of("/\xc3\xbc"), format_errc::bad_character);
  EXPECT_EQ(error_of(std::string_view("/\0", 2)), format_errc::bad_character);
  EXPECT_EQ(error_of("/\x7f"), format_errc::bad_character);
  EXPECT_EQ(error_of("ftp://example.org/"), format_errc::bad_target);
  EXPECT_EQ(error_of("http://user@example.org/"), format_errc::bad_host);
  EXPECT_EQ(error_of("http:///path"), format_errc::bad_host);
  EXPECT_EQ(error_of("http://"), format_errc::bad_host);
}

TEST(Authority, HostsAreNamesOrAddresses) {
  for (const std::string_view each :
       {"localhost", "a-b.c_d.example.", "192.0.2.1", "xn--mnchen-3ya.de", "[::1]", "[2001:db8::7]",
        "1.example", "[::ffff:1.2.3.4]"}) {
    EXPECT_TRUE(authority::parse(each)) << each;
  }
  const std::string label(64, 'a');
  for (const std::string_view each :
       {std::string_view(""), std::string_view("."), std::string_view("a..b"),
        std::string_view(".a"), std::string_view("300.1.1.1"), std::string_view("1.2.3"),
        std::string_view("0x7f.1"), std::string_view("0x7f000001"), std::string_view("1.2.3.0x4."),
        std::string_view("a%41"), std::string_view("::1"), std::string_view("[::1"),
        std::string_view("[1.2.3.4]"), std::string_view("[fe80::1%1]"), std::string_view("[v1.a]"),
        std::string_view("[]"), std::string_view("[::1]a"), std::string_view("a,b"),
        std::string_view(label)}) {
    EXPECT_EQ(authority::parse(each).error(), format_errc::bad_host) << each;
  }
  EXPECT_EQ(authority::parse("m\xc3\xbcnchen.de").error(), format_errc::host_not_ascii);
}

TEST(Authority, PortsAreNumbers) {
  EXPECT_EQ(authority::parse("a:65535").value().port, 65535);
  EXPECT_EQ(authority::parse("[::1]:080").value().port, 80);
  EXPECT_EQ(authority::parse("a").value().port, std::nullopt);
  EXPECT_EQ(authority::parse("a:").value(), (authority{.host = "a"}));
  EXPECT_EQ(authority::parse("[::1]:").value().host, "::1");
  for (const std::string_view each :
       {"a:0", "a:65536", "a:-1", "a:+1", "a:8o", "a:000080", "a:80:80", "a: 80"}) {
    EXPECT_EQ(authority::parse(each).error(), format_errc::bad_port) << each;
  }
}

}  // namespace
}  // namespace request_target_test
