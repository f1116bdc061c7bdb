// SPDX-License-Identifier: Apache-2.0
// Tests of server_options::hosts.
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http_server_hosts_test {
namespace {

using namespace gyre::net::test;
using gyre::task;
using gyre::http::next_handler;
using gyre::http::request;
using gyre::http::response;
using gyre::http::server;

class HttpServerHosts : public testing::Test {
 protected:
  void make(std::vector<std::string> hosts) {
    on.emplace(virtual_time.loop, any_port(),
               gyre::http::server_options{.hosts = std::move(hosts)});
    on->get("/", [](request&) { return response::text("x"); });
    on->post("/", [](request&) { return response::text("x"); });
  }
  // The statuses of the answers to `requests`, the last of which has to end the connection.
  std::string statuses(std::string_view requests) {
    peer client(on->local_endpoint());
    client.send(requests);
    virtual_time.turn_until([&] {
      client.receive();
      return client.ended;
    });
    std::string all;
    for (std::size_t at = client.text.find("HTTP/1.1 "); at != std::string::npos;
         at = client.text.find("HTTP/1.1 ", at + 1)) {
      all += client.text.substr(at + 9, 4);
    }
    return all;
  }
  std::string status_for(std::string_view host, std::string_view target = "/") {
    return statuses("GET " + std::string(target) + " HTTP/1.1\r\nHost: " + std::string(host) +
                    "\r\nConnection: close\r\n\r\n");
  }

  gyre::test::io_in_virtual_time virtual_time;
  std::optional<server> on;
};

TEST_F(HttpServerHosts, WithoutAListAnyHostIsServed) {
  make({});
  on->start();
  EXPECT_EQ(status_for("anything.test:80"), "200 ");
  EXPECT_EQ(status_for(""), "200 ");
}

TEST_F(HttpServerHosts, OtherHostsAreMisdirected) {
  make({"Example.org", "*.wild.test", "[::1]", "10.0.0.1", "dot.test."});
  on->start();
  for (const char* const host :
       {"example.org", "EXAMPLE.ORG:8080", "example.org.", "a.wild.test", "A.Wild.Test:1", "[::1]",
        "[::1]:80", "10.0.0.1:80", "dot.test", "example.org:"}) {
    EXPECT_EQ(status_for(host), "200 ") << host;
  }
  for (const char* const host :
       {"", "example.com", "a.example.org", "wild.test", "a.b.wild.test", ".wild.test",
        "xexample.org", "[::2]", "10.0.0.2", "%65xample.org", "example.org.."}) {
    EXPECT_EQ(status_for(host), "421 ") << host;
  }
}

TEST_F(HttpServerHosts, AnAbsoluteTargetReplacesHost) {
  make({"example.org"});
  on->start();
  EXPECT_EQ(status_for("other.test", "http://example.org:81/"), "200 ");
  EXPECT_EQ(status_for("example.org", "http://other.test/"), "421 ");
}

TEST_F(HttpServerHosts, TheConnectionGoesOnAfterARefusalWithoutABody) {
  make({"example.org"});
  on->start();
  const std::string other = "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n";
  const std::string ours = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
  EXPECT_EQ(statuses(other + ours + "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            "421 200 421 ");
  EXPECT_EQ(statuses("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\nxy" + ours),
            "421 ");
  EXPECT_EQ(on->metrics().malformed, 0u);
  EXPECT_EQ(on->metrics().client_errors, 3u);
  EXPECT_EQ(on->metrics().requests, 4u);
}

TEST_F(HttpServerHosts, RequestsWithoutAHostNeedAnEmptyEntry) {
  const char* const old = "GET / HTTP/1.0\r\n\r\n";
  make({"example.org"});
  on->start();
  EXPECT_EQ(statuses(old), "421 ");
  make({"example.org", ""});
  on->start();
  EXPECT_EQ(statuses(old), "200 ");
  EXPECT_EQ(status_for("example.org"), "200 ");
  EXPECT_EQ(status_for("other.test"), "421 ");
}

TEST_F(HttpServerHosts, MiddlewareDoesNotAnswerForOtherHosts) {
  make({"example.org"});
  on->use([](request&, next_handler) -> task<response> { co_return response::text("always"); });
  std::string logged;
  on->on_access([&](const gyre::http::access_record& record) { logged += record.request.host(); });
  on->start();
  EXPECT_EQ(status_for("example.org"), "200 ");
  EXPECT_EQ(status_for("other.test"), "421 ");
  EXPECT_EQ(logged, "example.orgother.test");
}

TEST_F(HttpServerHosts, MalformedEntriesAreRefused) {
  for (const char* const entry : {"example.org:80", "*", "*.", ".", "a.*.test", "a b", "http://a",
                                  "::1", "[::1", "*.*.test", "user@host"}) {
    EXPECT_THROW(make({entry}), std::invalid_argument) << entry;
  }
}

}  // namespace
}  // namespace http_server_hosts_test
