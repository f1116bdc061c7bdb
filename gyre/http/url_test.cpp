// SPDX-License-Identifier: Apache-2.0
// Tests of URLs.
#include <gyre/http/url.hpp>

#include <gyre/http/format_error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace url_test {
namespace {

using gyre::http::format_errc;
using gyre::http::url;

std::error_code error_of(std::string_view text) {
  const auto parsed = url::parse(text);
  return parsed ? std::error_code() : parsed.error();
}

std::string resolved(std::string_view base, std::string_view reference) {
  return url::parse(base).value().resolve(reference).value().to_string();
}

TEST(Url, HasParts) {
  const url all = url::parse("HTTPS://user:pw@Example.ORG:8443/a/b?q=1#part").value();
  EXPECT_EQ(all.scheme(), "https");
  EXPECT_EQ(all.user_info(), "user:pw");
  EXPECT_EQ(all.host(), "example.org");
  EXPECT_EQ(all.port(), 8443);
  EXPECT_EQ(all.path(), "/a/b");
  EXPECT_EQ(all.query(), "q=1");
  EXPECT_EQ(all.fragment(), "part");
  EXPECT_EQ(all.target(), "/a/b?q=1");
  EXPECT_EQ(all.authority(), "example.org:8443");
  EXPECT_EQ(all.to_string(), "https://example.org:8443/a/b?q=1#part");
}

TEST(Url, MissingPartsHaveDefaults) {
  const url plain = url::parse("http://example.org").value();
  EXPECT_EQ(plain.port(), 80);
  EXPECT_EQ(plain.path(), "/");
  EXPECT_EQ(plain.target(), "/");
  EXPECT_EQ(plain.authority(), "example.org");
  EXPECT_EQ(url::parse("https://example.org:443").value().authority(), "example.org");
  EXPECT_EQ(url::parse("http://example.org?").value().target(), "/?");
  EXPECT_EQ(url::parse("http://example.org#f").value().target(), "/");
  const url v6 = url::parse("http://[2001:DB8::7]:81/").value();
  EXPECT_EQ(v6.host(), "2001:db8::7");
  EXPECT_EQ(v6.authority(), "[2001:db8::7]:81");
}

TEST(Url, ErrorsSayTheRule) {
  for (const auto& [text, error] : std::vector<std::pair<std::string, format_errc>>{
           {"", format_errc::no_scheme},
           {"example.org", format_errc::no_scheme},
           {"example.org:80/", format_errc::no_scheme},
           {"/a", format_errc::no_scheme},
           {"http:/a", format_errc::no_scheme},
           {"1http://a/", format_errc::no_scheme},
           {" http://a/", format_errc::no_scheme},
           {"http://", format_errc::bad_host},
           {"http:///a", format_errc::bad_host},
           {"http://user@", format_errc::bad_host},
           {"http://a b/", format_errc::bad_host},
           {"http://a\\b/", format_errc::bad_host},
           {"http://[::1/", format_errc::bad_host},
           {"http://1.2.3.4.5/", format_errc::bad_host},
           {"http://a@b@c/", format_errc::bad_host},
           {"http://m\xc3\xbcnchen.de/", format_errc::host_not_ascii},
           {"http://a:99999/", format_errc::bad_port},
           {"http://a/b c", format_errc::bad_character},
           {"http://a/\r\nHost: b", format_errc::bad_character},
           {"http://a/?\xc3\xbc", format_errc::bad_character},
           {"http://a/%4", format_errc::bad_percent_encoding},
           {"http://a/?%zz", format_errc::bad_percent_encoding},
           {"http://a/" + std::string(url::max_size, 'a'), format_errc::too_long},
       }) {
    EXPECT_EQ(error_of(text), error) << text.substr(0, 40);
  }
}

// RFC 9110, 4.2.3, and RFC 3986, 3.2.3.
TEST(Url, AnEmptyPortIsThatOfTheScheme) {
  const url plain = url::parse("http://EXAMPLE.com:/%7Esmith").value();
  EXPECT_EQ(plain.port(), 80);
  EXPECT_EQ(plain.to_string(), "http://example.com/%7Esmith");
  EXPECT_EQ(plain, url::parse("http://example.com/%7Esmith").value());
  EXPECT_EQ(url::parse("https://[::1]:?a").value().to_string(), "https://[::1]/?a");
  EXPECT_EQ(resolved("http://a:81/", "//b:/c"), "http://b/c");
}

// RFC 3986, 5.4.
TEST(Url, RelativeReferencesAreResolvedAsInTheStandard) {
  for (const auto& [reference, expected] : std::vector<std::pair<std::string, std::string>>{
           {"g", "http://a/b/c/g"},
           {"./g", "http://a/b/c/g"},
           {"g/", "http://a/b/c/g/"},
           {"/g", "http://a/g"},
           {"//g", "http://g/"},
           {"?y", "http://a/b/c/d;p?y"},
           {"g?y", "http://a/b/c/g?y"},
           {"#s", "http://a/b/c/d;p?q#s"},
           {"g#s", "http://a/b/c/g#s"},
           {"g?y#s", "http://a/b/c/g?y#s"},
           {";x", "http://a/b/c/;x"},
           {"g;x?y#s", "http://a/b/c/g;x?y#s"},
           {"", "http://a/b/c/d;p?q"},
           {".", "http://a/b/c/"},
           {"./", "http://a/b/c/"},
           {"..", "http://a/b/"},
           {"../", "http://a/b/"},
           {"../g", "http://a/b/g"},
           {"../..", "http://a/"},
           {"../../g", "http://a/g"},
           {"../../../g", "http://a/g"},
           {"/./g", "http://a/g"},
           {"/../g", "http://a/g"},
           {"g.", "http://a/b/c/g."},
           {"..g", "http://a/b/c/..g"},
           {"./../g", "http://a/b/g"},
           {"g/./h", "http://a/b/c/g/h"},
           {"g/../h", "http://a/b/c/h"},
           {"g?y/../x", "http://a/b/c/g?y/../x"},
           {"https://h/x/../y", "https://h/y"},
       }) {
    EXPECT_EQ(resolved("http://a/b/c/d;p?q", reference), expected) << reference;
  }
}

TEST(Url, EncodedDotsAreDots) {
  EXPECT_EQ(url::parse("http://a/b/%2e%2E/c/%2e/d").value().path(), "/c/d");
  EXPECT_EQ(gyre::http::remove_dot_segments("/a//../b"), "/a/b");
  EXPECT_EQ(gyre::http::remove_dot_segments("/.."), "/");
}

TEST(Url, UserStaysOnlyWithTheSameOrigin) {
  const url base = url::parse("http://me:secret@a/").value();
  EXPECT_EQ(base.resolve("/b").value().user_info(), "me:secret");
  EXPECT_EQ(base.resolve("http://a:80/b").value().user_info(), "me:secret");
  EXPECT_EQ(base.resolve("http://b/").value().user_info(), "");
  EXPECT_EQ(base.resolve("//b/").value().user_info(), "");
  EXPECT_EQ(base.resolve("https://a/").value().user_info(), "");
  EXPECT_EQ(base.to_string(), "http://a/");
}

TEST(Url, ReferencesWithErrorsAreRefused) {
  const url base = url::parse("http://a/b?c").value();
  EXPECT_EQ(base.resolve("mailto:me").error(), format_errc::no_scheme);
  EXPECT_EQ(base.resolve("/b c").error(), format_errc::bad_character);
  EXPECT_EQ(base.resolve("//b:0/").error(), format_errc::bad_port);
}

}  // namespace
}  // namespace url_test
