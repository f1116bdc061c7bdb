// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/host_port.hpp>

#include <gyre/net/resolve_error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace host_port_test {
namespace {

using gyre::net::endpoint;
using gyre::net::host_port;
using gyre::net::ip_address;
using gyre::net::resolve_errc;

TEST(HostPort, IsANameWithAPort) {
  const host_port server = "example.org:https";
  EXPECT_TRUE(server.is_name());
  EXPECT_EQ(server.host(), "example.org");
  EXPECT_EQ(server.port(), 443);
  EXPECT_EQ(server.to_string(), "example.org:443");
  EXPECT_EQ(server.direct(), endpoint());
  EXPECT_TRUE(server.known_endpoints().empty());
  EXPECT_EQ(host_port::parse(server.to_string()), server);
}

TEST(HostPort, IsAnEndpointWhereTheTextIsOne) {
  for (const char* text :
       {"192.0.2.1:80", "[2001:db8::7]:80", "unix:/run/some.sock", "unix:@name"}) {
    const host_port server = text;
    EXPECT_FALSE(server.is_name()) << text;
    EXPECT_EQ(server.direct(), endpoint(text));
    EXPECT_EQ(server.known_endpoints(), std::vector<endpoint>{text});
    EXPECT_EQ(server.to_string(), text);
  }
  EXPECT_EQ(host_port("::1", 80), host_port("[::1]:80"));
  EXPECT_EQ(host_port("192.0.2.1", "http"), host_port(endpoint("192.0.2.1:80")));
}

TEST(HostPort, MeansBothLoopbackAddressesByLocalhostOrNoHost) {
  const std::vector<endpoint> both{{ip_address::loopback_v6(), 7}, {ip_address::loopback_v4(), 7}};
  for (const char* text : {"localhost:7", "LOCALHOST:echo", "a.localhost:7", ":7", "*:7"}) {
    EXPECT_EQ(host_port(text).known_endpoints(), both) << text;
  }
  EXPECT_TRUE(host_port("notlocalhost:7").known_endpoints().empty());
}

TEST(HostPort, RefusesTextThatCanBeNeither) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {""sv,
                                      "example.org"sv,
                                      "example.org:"sv,
                                      "example.org:65536"sv,
                                      "example.org:-1"sv,
                                      "300.1.1.1:80"sv,
                                      "1.2.3:80"sv,
                                      "10:80"sv,
                                      "::1:80"sv,
                                      "[::1]"sv,
                                      "[example.org]:80"sv,
                                      "http://example.org:80"sv,
                                      "user@example.org:80"sv,
                                      "example.org:80/path"sv,
                                      "exa mple.org:80"sv,
                                      " :80"sv,
                                      ".:80"sv,
                                      "a\n:80"sv,
                                      "a\0b:80"sv,
                                      "a..b:80"sv,
                                      ".localhost:80"sv,
                                      "a..localhost:80"sv,
                                      " x.localhost:80"sv,
                                      "//x.localhost:80"sv,
                                      "a\0b.localhost:80"sv}) {
    const auto parsed = host_port::parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error(), std::errc::invalid_argument) << text;
    EXPECT_FALSE(gyre::net::endpoint::parse(text)) << text;
  }
  EXPECT_FALSE(host_port::parse(std::string(256, 'a') + ":80"));
  EXPECT_EQ(host_port::parse("example.org:no-such-service-here").error(),
            resolve_errc::service_not_found);
  EXPECT_THROW(host_port("exa mple.org", 80), std::system_error);
  EXPECT_THROW(host_port("example.org", "no-such-service-here"), std::system_error);
}

TEST(HostPort, RefusesNumbersThatAreNoAddress) {
  for (const char* text : {"127.1:80", "0x7f.1:80", "017700000001:80", "2130706433:80", "0x:80",
                           "1.2.3.0X4:80", "127.0.0.1.:80", "a.5:80", "0x7f000001.:80"}) {
    EXPECT_EQ(host_port::parse(text).error(), resolve_errc::numeric_host) << text;
    EXPECT_EQ(gyre::net::endpoint::parse(text).error(), resolve_errc::numeric_host) << text;
  }
  EXPECT_TRUE(host_port::parse("0x7g:80"));
  EXPECT_TRUE(host_port::parse("1.example:80"));
}

TEST(HostPort, NamesTheTextAndTheFormsItAccepts) {
  try {
    const host_port server = "example.org";
    FAIL() << server;
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("'example.org'"));
    EXPECT_THAT(error.what(), testing::HasSubstr("example.org:https"));
    EXPECT_THAT(error.what(), testing::HasSubstr("[2001:db8::7]:80"));
    EXPECT_THAT(error.what(), testing::HasSubstr("unix:PATH"));
  }
}

TEST(HostPort, TakesNamesThatAreNotAscii) {
  EXPECT_EQ(host_port("b\xc3\xbc"
                      "cher.example:80")
                .host(),
            "b\xc3\xbc"
            "cher.example");
  EXPECT_TRUE(host_port("xn--bcher-kva.example.:80").is_name());
  EXPECT_TRUE(host_port("under_score:80").is_name());
  static_assert(!std::is_convertible_v<int, host_port>);
  static_assert(std::is_convertible_v<endpoint, host_port>);
}

}  // namespace
}  // namespace host_port_test
