// SPDX-License-Identifier: Apache-2.0
// Tests of headers Cookie and Set-Cookie.
#include <gyre/http/cookie.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cookie_test {
namespace {

using namespace std::chrono_literals;
using gyre::http::cookie_pair;
using gyre::http::cookies;
using gyre::http::same_site;
using gyre::http::set_cookie;

static_assert(std::forward_iterator<cookies::iterator>);

std::vector<cookie_pair> pairs(std::string_view header) {
  const cookies view(header);
  return {view.begin(), view.end()};
}

TEST(Cookies, AreRead) {
  EXPECT_EQ(pairs("a=1; b=\"2\";c=x=y ;d="),
            (std::vector<cookie_pair>{{"a", "1"}, {"b", "\"2\""}, {"c", "x=y"}, {"d", ""}}));
  const cookies view("a=1; b=2; a=3");
  EXPECT_EQ(view.get("a"), "1");
  EXPECT_EQ(view.get("b"), "2");
  EXPECT_EQ(view.get("A"), std::nullopt);
  EXPECT_TRUE(pairs("").empty());
}

TEST(Cookies, MalformedPairsAreLeftOut) {
  EXPECT_EQ(pairs("a; =b; c d=e; f=g h; i=\"; j=k,l; m=\\; \xc3\xbc=1; n=\xc3; o=p;;"),
            (std::vector<cookie_pair>{{"o", "p"}}));
}

TEST(Cookies, NumberIsLimited) {
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "a=b; ";
  EXPECT_EQ(pairs(many).size(), cookies::max_pairs);
}

TEST(SetCookie, IsSafeByDefault) {
  EXPECT_EQ(set_cookie("a", "b").to_string(), "a=b; Path=/; Secure; HttpOnly; SameSite=Lax");
}

TEST(SetCookie, HasAttributes) {
  EXPECT_EQ(set_cookie("a", "")
                .path("/x")
                .domain("example.org")
                .max_age(1h)
                .secure(false)
                .http_only(false)
                .same_site(same_site::strict)
                .to_string(),
            "a=; Path=/x; Domain=example.org; Max-Age=3600; SameSite=Strict");
  EXPECT_EQ(set_cookie::deletion("a").to_string(),
            "a=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Lax");
}

TEST(SetCookie, CharactersThatAreNotAllowedAreRefused) {
  for (const std::string_view name : {"", "a b", "a=", "a;", "a\r\n", "\xc3\xbc"}) {
    EXPECT_THROW(set_cookie(name, "b"), std::invalid_argument) << name;
  }
  for (const std::string_view value : {"a b", "a;b", "a,b", "a\"b", "a\\", "a\r\nb", "\xc3\xbc"}) {
    EXPECT_THROW(set_cookie("a", value), std::invalid_argument) << value;
  }
  set_cookie cookie("a", "b");
  for (const std::string_view path : {"", "a", "/;", "/\n", "/\xff", "/ "}) {
    EXPECT_THROW(cookie.path(path), std::invalid_argument) << path;
  }
  for (const std::string_view domain : {"", "a b", "a;b", "[::1]", "a:80", ".a", "a\n"}) {
    EXPECT_THROW(cookie.domain(domain), std::invalid_argument) << domain;
  }
  EXPECT_THROW(set_cookie("a", std::string(4096, 'b')), std::invalid_argument);
}

TEST(SetCookie, ContradictionsAreRefused) {
  const auto text = [](const set_cookie& cookie) { return cookie.to_string(); };
  EXPECT_THROW(text(set_cookie("a", "b").same_site(same_site::none).secure(false)),
               std::invalid_argument);
  EXPECT_THROW(text(set_cookie("__Secure-a", "b").secure(false)), std::invalid_argument);
  EXPECT_THROW(text(set_cookie("__Host-a", "b").domain("a.b")), std::invalid_argument);
  EXPECT_THROW(text(set_cookie("__Host-a", "b").path("/x")), std::invalid_argument);
  EXPECT_NO_THROW(text(set_cookie("__Host-a", "b")));
}

}  // namespace
}  // namespace cookie_test
