// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/proxy.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http_proxy_test {
namespace {

using gyre::http::proxy_settings;
using gyre::http::url;

bool is_direct(std::vector<std::string> no_proxy, std::string_view text) {
  proxy_settings proxies{.http = url::parse("http://p:1/").value()};
  proxies.no_proxy = std::move(no_proxy);
  return proxies.proxy_for(url::parse(text).value()) == nullptr;
}

TEST(HttpProxy, SomeHostsNeedNone) {
  const std::vector<std::string> excluded{"a.test", ".b.test", "c.test:81", "*.e.test", "f.test."};
  for (const std::string_view direct :
       {"http://a.test/", "http://A.test:81/", "http://x.a.test/", "http://b.test/",
        "http://x.b.test/", "http://c.test:81/", "https://d.test/", "http://x.e.test/",
        "http://a.test./", "http://f.test/"}) {
    EXPECT_TRUE(is_direct(excluded, direct)) << direct;
  }
  for (const std::string_view proxied :
       {"http://xa.test/", "http://test/", "http://c.test/", "http://127.0.0.1/"}) {
    EXPECT_FALSE(is_direct(excluded, proxied)) << proxied;
  }
  EXPECT_TRUE(is_direct({"*"}, "http://any/"));
}

TEST(HttpProxy, AddressesAreCompared) {
  const std::vector<std::string> excluded{"127.0.0.1", "::1", "[fe80::1]:82", "10.0.0.1:83",
                                          "[::3]"};
  for (const std::string_view direct :
       {"http://127.0.0.1:9/", "http://[::1]/", "http://[0:0:0:0:0:0:0:1]/", "http://[fe80::1]:82/",
        "http://[FE80:0::1]:82/", "http://[::ffff:127.0.0.1]/", "http://10.0.0.1:83/",
        "http://[::3]:84/"}) {
    EXPECT_TRUE(is_direct(excluded, direct)) << direct;
  }
  for (const std::string_view proxied : {"http://127.0.0.2/", "http://[::2]/", "http://[fe80::1]/",
                                         "http://10.0.0.1/", "http://x.127.0.0.1.test/"}) {
    EXPECT_FALSE(is_direct(excluded, proxied)) << proxied;
  }
  EXPECT_FALSE(is_direct({"0.0.1", ".1", "1"}, "http://127.0.0.1/")) << "an address has no domain";
}

TEST(HttpProxy, BlocksOfAddressesNeedNone) {
  const auto has = [](const char* block, std::string_view host) {
    return is_direct({block}, "http://" + std::string(host) + "/");
  };
  EXPECT_TRUE(has("10.0.0.0/8", "10.255.3.4"));
  EXPECT_FALSE(has("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(has("10.1.2.3/8", "10.255.3.4")) << "only the first bits count";
  EXPECT_TRUE(has("192.168.4.0/22", "192.168.7.255"));
  EXPECT_FALSE(has("192.168.4.0/22", "192.168.8.0"));
  EXPECT_TRUE(has("10.0.0.1/32", "10.0.0.1"));
  EXPECT_FALSE(has("10.0.0.1/32", "10.0.0.2"));
  EXPECT_TRUE(has("0.0.0.0/0", "10.0.0.2"));
  EXPECT_FALSE(has("0.0.0.0/0", "[::1]"));
  EXPECT_FALSE(has("0.0.0.0/0", "a.test")) << "names are not looked up";
  EXPECT_TRUE(has("10.0.0.0/8", "[::ffff:10.1.1.1]"));
  EXPECT_TRUE(has("fd00::/8", "[fdff::1]"));
  EXPECT_FALSE(has("fd00::/8", "[fe80::1]"));
  EXPECT_TRUE(has("2001:db8::/33", "[2001:db8:7fff::1]"));
  EXPECT_FALSE(has("2001:db8::/33", "[2001:db8:8000::1]"));
  EXPECT_TRUE(has("::1/128", "[::1]"));
  EXPECT_TRUE(has("::/0", "[2001:db8::1]"));
  EXPECT_FALSE(has("::/0", "10.0.0.1"));
}

TEST(HttpProxy, MalformedEntriesExcludeNothing) {
  for (const char* const entry : {"10.0.0.0/33",
                                  "10.0.0.0/",
                                  "10.0.0.0/x",
                                  "10.0.0.0/-1",
                                  "10.0.0.0/+8",
                                  "10.0.0.0/8/8",
                                  "10.0.0.0/8:80",
                                  "10.0.0.0/ 8",
                                  "10.0.0/8",
                                  "10/8",
                                  "/8",
                                  "/",
                                  "10.0.0.0/4294967304",
                                  "a.test/8",
                                  "10.0.0.1:",
                                  "10.0.0.1:x",
                                  "10.0.0.1]",
                                  "[10.0.0.1",
                                  "10.0.0.01",
                                  "",
                                  ".",
                                  ":"}) {
    EXPECT_FALSE(is_direct({entry}, "http://10.0.0.1/")) << entry;
    EXPECT_FALSE(is_direct({entry}, "http://a.test/")) << entry;
  }
  for (const char* const entry : {"::/129", "[::]/0", "[::1", "[::1]x", "[::1]:", "::1]", "[]", "[",
                                  ":::1", "::1/", "1::1::1/0"}) {
    EXPECT_FALSE(is_direct({entry}, "http://[::1]/")) << entry;
  }
}

}  // namespace
}  // namespace http_proxy_test
