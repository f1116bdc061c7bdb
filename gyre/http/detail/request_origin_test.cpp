// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/request_origin.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace http_request_origin_test {
namespace {

using gyre::http::field;
using gyre::http::field_list;
using gyre::http::forwarding_fields;
using gyre::http::forwarding_options;
using gyre::http::detail::find_origin;
using gyre::http::detail::request_origin;
using gyre::net::endpoint;
using gyre::net::ip_address;

// "address scheme host", with "-" for what is not known.
std::string text_of(const request_origin& origin) {
  const auto or_dash = [](std::string_view text) { return text.empty() ? "-" : std::string(text); };
  return (origin.address ? origin.address->to_string() : "-") + ' ' + or_dash(origin.scheme) + ' ' +
         or_dash(origin.host);
}

class HttpRequestOrigin : public testing::Test {
 protected:
  std::string find(const std::vector<field>& fields) const {
    return text_of(find_origin(options, peer, field_list(fields)));
  }
  std::string forwarded(std::string_view value) {
    options.fields = forwarding_fields::forwarded;
    return find({{"Forwarded", value}});
  }
  std::string forwarded_for(std::string_view value) const {
    return find({{"x-forwarded-for", value}});
  }

  forwarding_options options{.trusted = {"10.0.0.0/8", "2001:db8:1::/48"}};
  endpoint peer{ip_address("10.0.0.1"), 1};
};

TEST_F(HttpRequestOrigin, IsThePeerIfItIsNotTrusted) {
  peer = endpoint(ip_address("192.0.2.1"), 1);
  for (const auto kind : {forwarding_fields::forwarded, forwarding_fields::x_forwarded}) {
    options.fields = kind;
    EXPECT_EQ(find({{"Forwarded", "for=1.2.3.4;proto=https;host=a"},
                    {"X-Forwarded-For", "1.2.3.4"},
                    {"X-Forwarded-Proto", "https"},
                    {"X-Forwarded-Host", "a"}}),
              "192.0.2.1 - -");
  }
  options.trusted.clear();
  peer = endpoint(ip_address("10.0.0.1"), 1);
  EXPECT_EQ(forwarded_for("1.2.3.4"), "10.0.0.1 - -");
}

TEST_F(HttpRequestOrigin, ReadsOnlyTheChosenFields) {
  const std::vector<field> both = {{"Forwarded", "for=1.2.3.4"}, {"X-Forwarded-For", "5.6.7.8"}};
  EXPECT_EQ(find(both), "5.6.7.8 - -");
  options.fields = forwarding_fields::forwarded;
  EXPECT_EQ(find(both), "1.2.3.4 - -");
}

TEST_F(HttpRequestOrigin, IsTheLastAddressThatIsNotTrusted) {
  EXPECT_EQ(forwarded_for("1.2.3.4"), "1.2.3.4 - -");
  EXPECT_EQ(forwarded_for("6.6.6.6, 1.2.3.4"), "1.2.3.4 - -");
  EXPECT_EQ(forwarded_for("6.6.6.6,1.2.3.4 ,10.1.2.3, 10.3.2.1"), "1.2.3.4 - -");
  EXPECT_EQ(forwarded_for("10.9.9.9, 1.2.3.4,2001:db8:1::7"), "1.2.3.4 - -");
  EXPECT_EQ(forwarded_for("10.9.9.9, 10.2.2.2"), "10.9.9.9 - -");  // all are trusted
  EXPECT_EQ(find({{"X-Forwarded-For", "6.6.6.6"}, {"X-FORWARDED-FOR", "1.2.3.4, 10.0.0.2"}}),
            "1.2.3.4 - -");
  EXPECT_EQ(forwarded_for(""), "10.0.0.1 - -");
  EXPECT_EQ(forwarded_for(" , ,,"), "10.0.0.1 - -");
}

TEST_F(HttpRequestOrigin, ReadsAddressesWithPorts) {
  EXPECT_EQ(forwarded_for("1.2.3.4:65535"), "1.2.3.4 - -");
  EXPECT_EQ(forwarded_for("2001:db8::7"), "2001:db8::7 - -");
  EXPECT_EQ(forwarded_for("[2001:db8::7]"), "2001:db8::7 - -");
  EXPECT_EQ(forwarded_for("[2001:db8::7]:80"), "2001:db8::7 - -");
  EXPECT_EQ(forwarded_for("::ffff:1.2.3.4"), "1.2.3.4 - -");
  EXPECT_EQ(forwarded_for("::ffff:10.0.0.9, 6.6.6.6, ::ffff:10.0.0.9"), "6.6.6.6 - -");
}

TEST_F(HttpRequestOrigin, AnElementWithoutAnAddressGivesThatOfTheProxyThatSentIt) {
  for (const std::string unknown :
       {"unknown", "_hidden", "1.2.3", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:a", "[1.2.3.4]",
        "[::1", "::1]", "[::1]80", "fe80::1%lo", "01.2.3.4", "1.2.3.4 5", "localhost",
        "\"1.2.3.4\""}) {
    EXPECT_EQ(forwarded_for("6.6.6.6, " + unknown), "10.0.0.1 - -") << unknown;
    EXPECT_EQ(forwarded_for(unknown + ", 10.5.5.5"), "10.5.5.5 - -") << unknown;
    EXPECT_EQ(forwarded_for(unknown + ", 10.5.5.5, 10.6.6.6"), "10.5.5.5 - -") << unknown;
    EXPECT_EQ(forwarded_for(unknown + ", 1.2.3.4, 10.5.5.5"), "1.2.3.4 - -") << unknown;
  }
}

TEST_F(HttpRequestOrigin, TakesSchemeAndHostOfTheNearestProxy) {
  const auto with = [this](std::string_view scheme, std::string_view host) {
    return find({{"X-Forwarded-For", "1.2.3.4"},
                 {"X-Forwarded-Proto", scheme},
                 {"X-Forwarded-Host", host}});
  };
  EXPECT_EQ(with("https", "example.org:8443"), "1.2.3.4 https example.org:8443");
  EXPECT_EQ(with("http, HTTPS", "evil, [::1]:80"), "1.2.3.4 https [::1]:80");
  EXPECT_EQ(with("https,", "a,"), "1.2.3.4 - -");
  EXPECT_EQ(with("gopher", "a b"), "1.2.3.4 - -");
  EXPECT_EQ(with("javascript:alert(1)", "user@example.org"), "1.2.3.4 - -");
}

TEST_F(HttpRequestOrigin, ReadsForwarded) {
  EXPECT_EQ(forwarded("for=1.2.3.4"), "1.2.3.4 - -");
  EXPECT_EQ(forwarded("For=1.2.3.4;By=10.0.0.1;PROTO=HTTPS;host=example.org"),
            "1.2.3.4 https example.org");
  EXPECT_EQ(forwarded(R"(for="[2001:db8:cafe::17]:4711")"), "2001:db8:cafe::17 - -");
  EXPECT_EQ(forwarded(R"(for="1.2.3.4:80" ; host="example.org:80" ,for=10.0.0.7;proto=http)"),
            "1.2.3.4 - example.org:80");
  EXPECT_EQ(forwarded("for=6.6.6.6;proto=https, for=1.2.3.4;secret=x;proto=http"),
            "1.2.3.4 http -");
  EXPECT_EQ(forwarded("for=10.1.1.1;proto=https, for=10.2.2.2;proto=http"), "10.1.1.1 https -");
  EXPECT_EQ(forwarded("proto=https"), "10.0.0.1 https -");
  EXPECT_EQ(forwarded(""), "10.0.0.1 - -");
  EXPECT_EQ(forwarded(", ,for=1.2.3.4,"), "1.2.3.4 - -");
  EXPECT_EQ(forwarded("for=_hidden;proto=https, for=10.2.2.2"), "10.2.2.2 https -");
  EXPECT_EQ(forwarded(R"(for=1.2.3.4;host="ex\ample.org")"), "1.2.3.4 - -");
}

TEST_F(HttpRequestOrigin, ALineThatBreaksTheGrammarNamesNoClient) {
  for (const std::string line :
       {"for", "for=", "=1.2.3.4", "for=1.2.3.4:80", "for=[::1]", "for=\"1.2.3.4", "for=1.2.3.4 x",
        "for=1.2.3.4;for=5.6.7.8", "for = 1.2.3.4", "for=1.2.3.4;proto", "for=\"1.2.3.4\"x",
        "for=1.2.3.4;;=", "for=\"\\", "1.2.3.4", "for=1.2.3.4, for"}) {
    EXPECT_EQ(forwarded(line), "10.0.0.1 - -") << line;
    options.fields = forwarding_fields::forwarded;
    EXPECT_EQ(find({{"Forwarded", line}, {"Forwarded", "for=10.4.4.4"}}), "10.4.4.4 - -") << line;
    EXPECT_EQ(find({{"Forwarded", line}, {"Forwarded", "for=1.2.3.4"}}), "1.2.3.4 - -") << line;
  }
}

// A client that leaves a quoted string open must not hide the element that the proxy adds, and then
// name itself.
TEST_F(HttpRequestOrigin, AnOpenQuotedStringDoesNotHideTheProxysElement) {
  for (const std::string sent : {R"(for=6.6.6.6;x=")", R"(for=6.6.6.6;x="\)", R"(for="6.6.6.6)"}) {
    EXPECT_EQ(forwarded(sent + ", for=1.2.3.4"), "10.0.0.1 - -") << sent;
    EXPECT_EQ(forwarded(sent + R"(, for="[2001:db8::1]")"), "10.0.0.1 - -") << sent;
  }
}

TEST_F(HttpRequestOrigin, AUnixPeerIsTrustedIfTheOptionSaysSo) {
  peer = endpoint::unix_path("/run/proxy");
  EXPECT_EQ(forwarded_for("1.2.3.4"), "- - -");
  options.trusts_unix_peers = true;
  EXPECT_EQ(forwarded_for("1.2.3.4"), "1.2.3.4 - -");
  EXPECT_EQ(forwarded_for("unknown"), "- - -");
}

TEST_F(HttpRequestOrigin, AMappedPeerIsAnIpv4Peer) {
  peer = endpoint(ip_address("::ffff:10.0.0.1"), 1);
  EXPECT_EQ(forwarded_for("1.2.3.4"), "1.2.3.4 - -");
  EXPECT_EQ(forwarded_for("unknown"), "10.0.0.1 - -");
}

}  // namespace
}  // namespace http_request_origin_test
