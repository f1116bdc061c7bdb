// SPDX-License-Identifier: Apache-2.0
// Tests of the cookies of clients.
#include <gyre/http/cookie_jar.hpp>

#include <gyre/http/detail/cookie_text.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace cookie_jar_test {
namespace {

using namespace std::chrono_literals;
using gyre::http::cookie_jar;
using gyre::http::received_cookie;
using gyre::http::url;

const std::chrono::sys_seconds now = std::chrono::sys_days(std::chrono::year(2026) / 11 / 25);

url at(std::string_view text) { return url::parse(text).value(); }

// A jar whose time is `now`.
struct jar : cookie_jar {
  using cookie_jar::cookie_jar;
  bool take(std::string_view from, std::string_view header) {
    return receive(at(from), header, now);
  }
  std::string sent(std::string_view to, std::chrono::seconds later = 0s) {
    return header_for(at(to), now + later);
  }
};

TEST(ReceivedCookie, HasAttributes) {
  const auto cookie = received_cookie::parse(
      " a = b=c ; Path=/x; DOMAIN=.Example.org; Secure; httponly; Max-Age=60; Other; "
      "Expires=Sun, 06 Nov 1994 08:49:37 GMT; Path=y; max-age=x");
  ASSERT_TRUE(cookie);
  EXPECT_EQ(cookie->name, "a");
  EXPECT_EQ(cookie->value, "b=c");
  EXPECT_EQ(cookie->path, "");
  EXPECT_EQ(cookie->domain, "example.org");
  EXPECT_TRUE(cookie->secure && cookie->http_only);
  EXPECT_EQ(cookie->max_age, 60s);
  EXPECT_EQ(cookie->expires, std::chrono::sys_seconds(784111777s));
  EXPECT_EQ(received_cookie::parse("a=b; max-age=-1")->max_age, 0s);
  EXPECT_EQ(received_cookie::parse("a=b; max-age=99999999999999999999")->max_age,
            std::chrono::days(400));
}

TEST(ReceivedCookie, MalformedOnesAreRefused) {
  for (const std::string& each :
       {std::string(), std::string("a"), std::string("=b"), std::string("a=b\n"),
        std::string("a=b\0", 4), "a=" + std::string(10000, 'b')}) {
    EXPECT_FALSE(received_cookie::parse(each)) << each.substr(0, 10);
  }
}

TEST(ReceivedCookie, DatesMayHaveManyForms) {
  using gyre::http::detail::parse_cookie_date;
  const std::chrono::sys_seconds time(784111777s);
  for (const std::string_view each :
       {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994", "6 november 1994 8:49:37", "08:49:37 6-Nov-1994"}) {
    EXPECT_EQ(parse_cookie_date(each), time) << each;
  }
  for (const std::string_view each : {"", "6 Nov 1994", "6 Nov 08:49:37", "31 Feb 1994 08:49:37",
                                      "6 Nov 1500 08:49:37", "6 Nov 1994 24:00:00", "a:b:c"}) {
    EXPECT_EQ(parse_cookie_date(each), std::nullopt) << each;
  }
}

TEST(CookieJar, HostsGetTheirOwnCookies) {
  jar all;
  EXPECT_TRUE(all.take("https://www.example.org/", "a=1"));
  EXPECT_TRUE(all.take("https://www.example.org/", "b=2; Domain=example.org"));
  EXPECT_EQ(all.sent("https://www.example.org/"), "a=1; b=2");
  EXPECT_EQ(all.sent("https://example.org/"), "b=2");
  EXPECT_EQ(all.sent("https://x.www.example.org/"), "b=2");
  EXPECT_EQ(all.sent("https://badexample.org/"), "");
  all.clear();
  EXPECT_EQ(all.size(), 0U);
}

TEST(CookieJar, OtherDomainsAreRefused) {
  jar all;
  EXPECT_FALSE(all.take("https://a.example.org/", "a=1; Domain=b.example.org"));
  EXPECT_FALSE(all.take("https://example.org/", "a=1; Domain=www.example.org"));
  EXPECT_FALSE(all.take("https://example.org/", "a=1; Domain=org"));
  EXPECT_FALSE(all.take("https://example.org/", "a=1; Domain=org."));
  EXPECT_FALSE(all.take("https://192.0.2.1/", "a=1; Domain=2.1"));
  EXPECT_TRUE(all.take("https://192.0.2.1/", "a=1; Domain=192.0.2.1"));
  EXPECT_TRUE(all.take("https://localhost/", "a=1; Domain=localhost"));
  EXPECT_EQ(all.sent("https://x.localhost/"), "");
  EXPECT_EQ(all.sent("https://localhost/"), "a=1");
}

TEST(CookieJar, PathsMatchWholeSegments) {
  jar all;
  all.take("https://a.b/x/page", "a=1");
  all.take("https://a.b/x/page", "b=2; Path=/x/y/");
  all.take("https://a.b/x/page", "c=3; Path=/");
  EXPECT_EQ(all.sent("https://a.b/x"), "a=1; c=3");
  EXPECT_EQ(all.sent("https://a.b/x/y/z"), "b=2; a=1; c=3");
  EXPECT_EQ(all.sent("https://a.b/xy"), "c=3");
}

TEST(CookieJar, SecureCookiesStayOnTls) {
  jar all;
  EXPECT_FALSE(all.take("http://a.b/", "a=1; Secure"));
  EXPECT_TRUE(all.take("https://a.b/", "a=1; Secure"));
  EXPECT_EQ(all.sent("http://a.b/"), "");
  EXPECT_FALSE(all.take("http://a.b/", "a=forged"));
  EXPECT_FALSE(all.take("http://x.a.b/", "a=forged; Domain=a.b"));
  EXPECT_EQ(all.sent("https://a.b/"), "a=1");
  EXPECT_FALSE(all.take("https://a.b/", "__Secure-a=1"));
  EXPECT_FALSE(all.take("https://a.b/", "__host-a=1; Secure; Path=/; Domain=a.b"));
  EXPECT_TRUE(all.take("https://a.b/", "__Host-a=1; Secure; Path=/"));
}

TEST(CookieJar, CookiesExpire) {
  jar all;
  all.take("https://a.b/", "a=1; Max-Age=60");
  all.take("https://a.b/", "b=2; Expires=Thu, 26 Nov 2026 00:00:00 GMT");
  all.take("https://a.b/", "c=3");
  EXPECT_EQ(all.sent("https://a.b/", 59s), "a=1; b=2; c=3");
  EXPECT_EQ(all.sent("https://a.b/", 60s), "b=2; c=3");
  EXPECT_EQ(all.sent("https://a.b/", 24h), "c=3");
  EXPECT_TRUE(all.take("https://a.b/", "c=; Max-Age=0"));
  EXPECT_EQ(all.sent("https://a.b/"), "");
  EXPECT_EQ(all.size(), 0U);
}

TEST(CookieJar, NewValuesReplaceOldOnes) {
  jar all;
  all.take("https://a.b/", "a=1");
  all.take("https://a.b/", "b=2");
  all.take("https://a.b/", "a=3");
  EXPECT_EQ(all.sent("https://a.b/"), "a=3; b=2");
}

TEST(CookieJar, NumberIsLimited) {
  jar all({.max_cookies = 3, .max_cookies_per_host = 2, .max_cookie_size = 10});
  EXPECT_FALSE(all.take("https://a.b/", "a=1234567890"));
  all.take("https://a.b/", "a=1");
  all.take("https://a.b/", "b=2");
  all.take("https://a.b/", "c=3");
  EXPECT_EQ(all.sent("https://a.b/"), "b=2; c=3");
  all.take("https://c.d/", "d=4");
  all.take("https://e.f/", "e=5");
  EXPECT_EQ(all.size(), 3U);
  EXPECT_EQ(all.sent("https://a.b/"), "c=3");
}

TEST(CookieJar, CookiesWithoutSecurePushOutNoSecureOnes) {
  jar all({.max_cookies = 4, .max_cookies_per_host = 2});
  all.take("https://a.b/", "a=1; Secure");
  all.take("http://a.b/", "b=2");
  all.take("http://a.b/", "c=3");
  EXPECT_EQ(all.sent("https://a.b/"), "a=1; c=3");
  all.take("https://a.b/", "d=4; Secure");
  EXPECT_EQ(all.sent("https://a.b/"), "a=1; d=4");
  all.take("http://a.b/", "e=5");
  EXPECT_EQ(all.sent("https://a.b/"), "a=1; d=4");
  all.take("https://a.b/", "f=6; Secure");
  EXPECT_EQ(all.sent("https://a.b/"), "d=4; f=6");
  for (const std::string_view host : {"http://c.d/", "http://e.f/", "http://g.h/", "http://i.j/"}) {
    all.take(host, "x=y");
  }
  EXPECT_EQ(all.size(), 4U);
  EXPECT_EQ(all.sent("https://a.b/"), "d=4; f=6");
}

}  // namespace
}  // namespace cookie_jar_test
