// SPDX-License-Identifier: Apache-2.0
// Tests of Internet addresses and of the endpoints made of them.
#include <gyre/base/unique_fd.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/detail/address_limits.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/resolve_error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <unordered_set>

namespace address_test {
namespace {

using gyre::net::address_family;
using gyre::net::endpoint;
using gyre::net::ip_address;

template <class F>
std::error_code error_of(F&& work) {
  try {
    work();
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

TEST(IpAddress, IsWrittenAsItWasRead) {
  for (const char* text : {"0.0.0.0", "192.0.2.1", "255.255.255.255", "::", "::1", "2001:db8::7",
                           "fe80::1%3", "::ffff:192.0.2.1", "1:2:3:4:5:6:7:8"}) {
    EXPECT_EQ(ip_address(text).to_string(), text);
  }
  EXPECT_EQ(ip_address("2001:DB8:0:0::7").to_string(), "2001:db8::7");
}

TEST(IpAddress, AnyIsReadAsItIsWritten) {
  std::minstd_rand random(1);
  for (int i = 0; i < 2000; ++i) {
    ip_address::v6_bytes bytes{};
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() % 3 == 0 ? random() : 0);
    const ip_address v6(bytes, static_cast<std::uint32_t>(random() % 3));
    EXPECT_EQ(ip_address::parse(v6.to_string()), v6) << v6;
    const ip_address v4 = ip_address::v4(bytes[0], bytes[1], bytes[2], bytes[3]);
    EXPECT_EQ(ip_address::parse(v4.to_string()), v4) << v4;
  }
}

TEST(IpAddress, MalformedTextIsRefused) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {""sv,          "1"sv,
                                      "1.2.3"sv,     "1.2.3.4.5"sv,
                                      "256.1.1.1"sv, "01.2.3.4"sv,
                                      "1.2.3.4 "sv,  " 1.2.3.4"sv,
                                      "1.2.3.4\0"sv, "1.2.3.4%lo"sv,
                                      ":"sv,         ":::"sv,
                                      "1::2::3"sv,   "1:2:3:4:5:6:7:8:9"sv,
                                      "::g"sv,       "[::1]"sv,
                                      "::1%"sv,      "::1\0"sv,
                                      "::1%lo\0"sv,  "::1%a-name-that-is-far-too-long"sv,
                                      "localhost"sv, "1.2.3.4:80"sv}) {
    const auto parsed = ip_address::parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error(), std::errc::invalid_argument) << text;
  }
  EXPECT_EQ(error_of([] { (void)ip_address("nonsense"); }), std::errc::invalid_argument);
}

TEST(IpAddress, HasTheScopeOfAnInterfacesNameOrNumber) {
  const unsigned loopback = ::if_nametoindex("lo");
  ASSERT_NE(loopback, 0u);
  EXPECT_EQ(ip_address("fe80::1%lo").scope(), loopback);
  EXPECT_EQ(ip_address("fe80::1%lo"), ip_address("fe80::1%" + std::to_string(loopback)));
  EXPECT_NE(ip_address("fe80::1%lo"), ip_address("fe80::1"));
  EXPECT_EQ(ip_address::parse("fe80::1%nosuchdevice").error(), std::errc::no_such_device);
}

TEST(IpAddress, KnowsWhatItIs) {
  static_assert(ip_address::loopback_v4().is_loopback() && ip_address::loopback_v6().is_loopback());
  static_assert(ip_address().is_any() && ip_address::any_v6().is_any());
  static_assert(ip_address::v4(127, 9, 9, 9).is_loopback() &&
                !ip_address::v4(126, 0, 0, 1).is_loopback());
  EXPECT_TRUE(ip_address("::1%1").is_loopback());
  EXPECT_FALSE(ip_address("::2").is_loopback());
  EXPECT_TRUE(ip_address("239.1.2.3").is_multicast());
  EXPECT_TRUE(ip_address("ff02::1%1").is_multicast());
  EXPECT_FALSE(ip_address("192.0.2.1").is_multicast());
  EXPECT_TRUE(ip_address("169.254.3.4").is_link_local());
  EXPECT_TRUE(ip_address("febf::1").is_link_local());
  EXPECT_FALSE(ip_address("fec0::1").is_link_local());
  for (const char* text : {"10.1.1.1", "172.16.0.1", "172.31.255.255", "192.168.7.7", "fd00::1"}) {
    EXPECT_TRUE(ip_address(text).is_private()) << text;
  }
  for (const char* text : {"11.1.1.1", "172.32.0.1", "192.169.0.1", "fe00::1"}) {
    EXPECT_FALSE(ip_address(text).is_private()) << text;
  }
}

TEST(IpAddress, MappedIsWhatItsIPv4AddressIs) {
  const ip_address mapped("::ffff:127.0.0.1");
  EXPECT_TRUE(mapped.is_v6() && mapped.is_v4_mapped() && mapped.is_loopback());
  EXPECT_EQ(mapped.unmapped(), ip_address::loopback_v4());
  EXPECT_EQ(ip_address("::1").unmapped(), ip_address("::1"));
  EXPECT_FALSE(ip_address("::fffe:127.0.0.1").is_v4_mapped());
  EXPECT_TRUE(ip_address("::ffff:0.0.0.0").is_any());
}

TEST(IpAddress, IsOrderedAndHashed) {
  EXPECT_LT(ip_address("255.0.0.0"), ip_address("::"));
  EXPECT_LT(ip_address("10.0.0.2"), ip_address("10.0.0.10"));
  std::unordered_set<ip_address> set;
  for (int i = 0; i < 100; ++i) set.insert(ip_address::v4(10, 0, 0, static_cast<std::uint8_t>(i)));
  EXPECT_EQ(set.size(), 100u);
  EXPECT_TRUE(set.contains(ip_address("10.0.0.42")));
}

TEST(Endpoint, IsWrittenAsItWasRead) {
  for (const char* text : {"192.0.2.1:80", "0.0.0.0:0", "[::1]:65535", "[fe80::1%1]:53", "unix:",
                           "unix:/run/some.sock", "unix:relative", "unix:@name", "unix:@"}) {
    const auto parsed = endpoint::parse(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(parsed->to_string(), text);
  }
  EXPECT_EQ(endpoint().to_string(), "none");
}

TEST(Endpoint, MalformedTextIsRefused) {
  for (const char* text : {"",
                           "none",
                           "1.2.3.4",
                           "1.2.3.4:",
                           "1.2.3.4:65536",
                           "1.2.3.4:-1",
                           "1.2.3.4:+1",
                           "1.2.3.4: 1",
                           "::1:80",
                           "[::1]",
                           "[::1]:",
                           "[::1:80",
                           "::1]:80",
                           "[1.2.3.4]:80",
                           "[]:80",
                           "[:80",
                           "example.org:80",
                           "[*]:80",
                           "[localhost]:80",
                           "1.2.3.4:http ",
                           "1.2.3.4:ht/tp",
                           "http://1.2.3.4:80",
                           "**:1"}) {
    const auto parsed = endpoint::parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error(), std::errc::invalid_argument) << text;
  }
  EXPECT_EQ(endpoint::parse(std::string("unix:").append(108, 'x')).error(),
            std::errc::filename_too_long);
  EXPECT_EQ(endpoint::parse("[::1%nosuchdevice]:1").error(), std::errc::no_such_device);
}

TEST(Endpoint, IsReadAsPeopleTypeIt) {
  EXPECT_EQ(endpoint("localhost:7000"), endpoint(ip_address::loopback_v4(), 7000));
  EXPECT_EQ(endpoint("LocalHost:7000"), endpoint(ip_address::loopback_v4(), 7000));
  EXPECT_EQ(endpoint("[::1]:http"), endpoint(ip_address::loopback_v6(), 80));
  EXPECT_EQ(endpoint("192.0.2.1:domain").port(), 53);
  EXPECT_EQ(endpoint(":7000"), endpoint::any(7000));
  EXPECT_EQ(endpoint("*:https"), endpoint::any(443));
  EXPECT_TRUE(endpoint::any(1).address().is_any());
  EXPECT_EQ(endpoint::parse("1.2.3.4:no-such-service-here").error(),
            gyre::net::resolve_errc::service_not_found);
}

TEST(Endpoint, IsConvertedFromEachKindOfText) {
  const auto port_of = [](const endpoint& at) { return at.port(); };
  const std::string owned = "192.0.2.1:81";
  EXPECT_EQ(port_of("192.0.2.1:80"), 80);
  EXPECT_EQ(port_of(owned), 81);
  EXPECT_EQ(port_of(std::string_view(owned)), 81);
  EXPECT_EQ(port_of({ip_address::any_v4(), 82}), 82);
  EXPECT_TRUE(owned == endpoint(ip_address("192.0.2.1"), 81));
  static_assert(!std::is_convertible_v<int, endpoint>);
  static_assert(!std::is_convertible_v<ip_address, endpoint>, "without a port");
}

TEST(Endpoint, HasTheAddressItWasMadeOf) {
  const endpoint v4(ip_address("192.0.2.1"), 80);
  EXPECT_EQ(v4.family(), address_family::ipv4);
  EXPECT_EQ(v4.address(), ip_address("192.0.2.1"));
  EXPECT_EQ(v4.port(), 80);
  EXPECT_EQ(v4.size(), sizeof(sockaddr_in));
  endpoint v6(ip_address("fe80::1%7"), 443, 0x12345);
  EXPECT_EQ(v6.family(), address_family::ipv6);
  EXPECT_EQ(v6.address(), ip_address("fe80::1%7"));
  EXPECT_EQ(v6.flow(), 0x12345u);
  EXPECT_EQ(v6.size(), sizeof(sockaddr_in6));
  v6.set_port(8443);
  EXPECT_EQ(v6.to_string(), "[fe80::1%7]:8443");
}

TEST(Endpoint, AUnixEndpointHasAPathOrANameOrNeither) {
  const endpoint path = endpoint::unix_path("/run/s");
  EXPECT_EQ(path.path(), "/run/s");
  EXPECT_EQ(path.size(), offsetof(sockaddr_un, sun_path) + 7);
  EXPECT_EQ(endpoint::unix_path("@odd").path(), "./@odd");
  const endpoint name = endpoint::unix_abstract({"a\0b", 3});
  EXPECT_TRUE(name.is_abstract() && name.path().empty());
  EXPECT_EQ(name.abstract_name(), std::string_view("a\0b", 3));
  EXPECT_EQ(endpoint::parse(name.to_string()), name);
  const endpoint unnamed = endpoint::unix_unnamed();
  EXPECT_TRUE(unnamed.is_unix() && !unnamed.is_abstract() && unnamed.path().empty());
  EXPECT_NE(unnamed, endpoint::unix_abstract(""));
  EXPECT_NE(unnamed, endpoint());
  EXPECT_EQ(name.port(), 0);
  EXPECT_EQ(error_of([&] { name.address(); }), std::errc::address_family_not_supported);
  EXPECT_EQ(error_of([] { endpoint::unix_path(""); }), std::errc::invalid_argument);
  EXPECT_EQ(error_of([] { endpoint::unix_path({"a\0b", 3}); }), std::errc::invalid_argument);
  EXPECT_EQ(endpoint::unix_path(std::string(107, 'x')).path().size(), 107u);
  EXPECT_EQ(error_of([] { endpoint::unix_path(std::string("@").append(106, 'x')); }),
            std::errc::filename_too_long);
}

TEST(Endpoint, IsWhatTheKernelSays) {
  for (const endpoint& bound :
       {endpoint(ip_address::loopback_v4(), 0), endpoint(ip_address::loopback_v6(), 0),
        endpoint::unix_unnamed(), endpoint::unix_abstract("gyre-endpoint-test")}) {
    const gyre::unique_fd socket(::socket(static_cast<int>(bound.family()), SOCK_STREAM, 0));
    ASSERT_EQ(::bind(socket.get(), bound.data(), bound.size()), 0) << bound;
    endpoint told;
    socklen_t size = endpoint::capacity();
    ASSERT_EQ(::getsockname(socket.get(), told.data(), &size), 0);
    told.resize(size);
    EXPECT_EQ(told.family(), bound.family());
    if (bound.is_ip()) {
      EXPECT_EQ(told.address(), bound.address());
      EXPECT_NE(told.port(), 0);
    } else if (bound == endpoint::unix_unnamed()) {
      EXPECT_EQ(told.abstract_name().size(), 5u) << "autobind";
    } else {
      EXPECT_EQ(told, bound);
    }
    EXPECT_EQ(endpoint::from_sockaddr(told.data(), told.size()), told);
  }
}

TEST(Endpoint, TakesAPathOfTheKernelsGreatestLength) {
  endpoint told;
  told.data()->sa_family = AF_UNIX;
  std::memset(reinterpret_cast<char*>(told.data()) + offsetof(sockaddr_un, sun_path), 'x', 108);
  told.resize(endpoint::capacity());
  EXPECT_EQ(told.path(), std::string(108, 'x'));
}

TEST(Endpoint, RefusesAnAddressThatDoesNotFitItsFamily) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  const auto* address = reinterpret_cast<const sockaddr*>(&v6);
  EXPECT_EQ(error_of([&] { endpoint::from_sockaddr(address, sizeof(sockaddr_in)); }),
            std::errc::invalid_argument);
  EXPECT_EQ(error_of([&] { endpoint::from_sockaddr(address, 1000); }), std::errc::invalid_argument);
  EXPECT_EQ(error_of([&] { endpoint::from_sockaddr(address, 0); }),
            std::errc::address_family_not_supported);
  v6.sin6_family = AF_PACKET;
  EXPECT_EQ(error_of([&] { endpoint::from_sockaddr(address, sizeof v6); }),
            std::errc::address_family_not_supported);
  endpoint none(ip_address::loopback_v6(), 1);
  none.resize(sizeof(sockaddr_in));
  EXPECT_EQ(none, endpoint());
}

TEST(Endpoint, ComparesWhatItNamesAndNoMore) {
  const ip_address address("2001:db8::1");
  EXPECT_EQ(endpoint(address, 1, 5), endpoint(address, 1, 6)) << "the flow label is carried only";
  EXPECT_NE(endpoint(address, 1), endpoint(address, 2));
  EXPECT_LT(endpoint(ip_address("10.0.0.1"), 9), endpoint(ip_address("10.0.0.2"), 1));
  sockaddr_in odd{};
  odd.sin_family = AF_INET;
  odd.sin_zero[3] = 1;
  EXPECT_EQ(endpoint::from_sockaddr(reinterpret_cast<const sockaddr*>(&odd), sizeof odd),
            endpoint(ip_address::any_v4(), 0));
  const std::unordered_set<endpoint> set{endpoint(address, 1), endpoint(address, 2),
                                         endpoint::unix_path("/a"), endpoint::unix_abstract("a"),
                                         endpoint()};
  EXPECT_EQ(set.size(), 5u);
  EXPECT_TRUE(set.contains(endpoint(address, 2, 7)));
}

TEST(Endpoint, IsMadeOfTextOrSaysWhatIsWrongWithIt) {
  EXPECT_EQ(endpoint("192.0.2.1:80"), endpoint(ip_address("192.0.2.1"), 80));
  for (const std::string text : {"example.org:80", "7007", "[::1:80", "unix:"}) {
    const bool local = text == "unix:";
    const std::string given = local ? text + std::string("a\0b", 3) : text;
    try {
      const endpoint made(given);
      FAIL() << made;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), std::errc::invalid_argument);
      EXPECT_THAT(error.what(), testing::HasSubstr('\'' + text));
      EXPECT_EQ(std::string(error.what()).contains("expected ADDRESS:PORT"), !local);
    }
  }
}

TEST(AddressLimits, CountAnIpv4AddressHoweverItIsWrittenAndAnIpv6Network) {
  gyre::net::detail::address_limits limits(2, gyre::net::detail::address_limits::unlimited,
                                           std::chrono::seconds(1));
  const gyre::steady_time now{std::chrono::hours(1)};
  const auto admits = [&](const char* peer) { return limits.admit(endpoint(peer), now); };
  EXPECT_TRUE(admits("192.0.2.1:1"));
  EXPECT_TRUE(admits("[::ffff:192.0.2.1]:2"));
  EXPECT_FALSE(admits("192.0.2.1:3"));
  EXPECT_TRUE(admits("192.0.2.2:1"));
  EXPECT_TRUE(admits("[::ffff:192.0.2.3]:1"));
  EXPECT_TRUE(admits("[2001:db8::1]:1"));
  EXPECT_TRUE(admits("[2001:db8::2:1]:1"));
  EXPECT_FALSE(admits("[2001:db8::3:2:1]:1"));
  EXPECT_TRUE(admits("[2001:db8:0:1::1]:1"));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(admits("unix:/tmp/peer"));
  limits.release(endpoint("192.0.2.1:1"));
  EXPECT_TRUE(admits("192.0.2.1:3"));
}

TEST(AddressLimits, ForgetThoseThatAreOfNoConsequenceAnyMore) {
  gyre::net::detail::address_limits limits(10, 10, std::chrono::seconds(1));
  gyre::steady_time now{std::chrono::hours(1)};
  for (std::uint32_t i = 0; i < 10'000; ++i, now += std::chrono::milliseconds(1)) {
    const endpoint peer(ip_address::v4(10, 0, static_cast<std::uint8_t>(i >> 8),
                                       static_cast<std::uint8_t>(i & 0xff)),
                        7);
    EXPECT_TRUE(limits.admit(peer, now));
    limits.release(peer);
  }
  EXPECT_LE(limits.size(), 3'000u);
}

}  // namespace
}  // namespace address_test
