// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/rate_limit.hpp>

#include <gyre/http/server_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace http_rate_limit_test {
namespace {

using namespace gyre::http::test;
using namespace std::chrono_literals;
using gyre::http::rate_limit;
using gyre::http::request;
using gyre::http::response;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const auto is_allowed = StartsWith("HTTP/1.1 200 ");
const auto is_refused = StartsWith("HTTP/1.1 429 ");

class HttpRateLimit : public server_fixture {
 protected:
  void serve(const rate_limit& limit) {
    make({.forwarding = {.trusted = {"127.0.0.1"}}});
    on->use(limit);
    on->get("/", [](request&) { return response::text("hello"); });
    on->start();
  }
  std::string answer_from(std::string_view address, std::string_view more = "") {
    return answer_to(
        get("/", "X-Forwarded-For: " + std::string(address) + "\r\n" + std::string(more)));
  }
};

TEST_F(HttpRateLimit, RefusesAClientWithoutTokens) {
  const rate_limit limit({.tokens = 1, .per = 10s, .burst = 2});
  serve(limit);
  EXPECT_THAT(answer_to(get("/")), is_allowed);
  EXPECT_THAT(answer_to(get("/")), is_allowed);
  EXPECT_THAT(answer_to(get("/")), AllOf(is_refused, HasSubstr("\r\nRetry-After: 10\r\n")));
  virtual_time.advance(8500ms);
  EXPECT_THAT(answer_to(get("/")), AllOf(is_refused, HasSubstr("\r\nRetry-After: 2\r\n")));
  virtual_time.advance(1500ms);
  EXPECT_THAT(answer_to(get("/")), is_allowed);
  EXPECT_EQ(limit.metrics().allowed, 3u);
  EXPECT_EQ(limit.metrics().refused, 2u);
}

TEST_F(HttpRateLimit, RequestsWithoutARouteCount) {
  serve(rate_limit({.tokens = 1, .per = 1h}));
  EXPECT_THAT(answer_to(get("/unknown")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(answer_to(get("/unknown")), is_refused);
}

TEST_F(HttpRateLimit, TellsClientsApartByTheirNetworks) {
  serve(rate_limit({.tokens = 1, .per = 1h}));
  EXPECT_THAT(answer_from("192.0.2.1"), is_allowed);
  EXPECT_THAT(answer_from("192.0.2.1"), is_refused);
  EXPECT_THAT(answer_from("192.0.2.2"), is_allowed);
  EXPECT_THAT(answer_from("::ffff:192.0.2.2"), is_refused);
  EXPECT_THAT(answer_from("2001:db8:0:1::1"), is_allowed);
  EXPECT_THAT(answer_from("2001:db8:0:1:ffff::2"), is_refused);
  EXPECT_THAT(answer_from("2001:db8:0:2::1"), is_allowed);
  EXPECT_THAT(answer_from("c000:201::"), is_allowed);  // begins with the bytes of 192.0.2.1
}

TEST_F(HttpRateLimit, TellsClientsApartByAField) {
  serve(rate_limit({.tokens = 1, .per = 1h}, rate_limit::field("X-Key")));
  EXPECT_THAT(answer_from("192.0.2.1", "X-Key: a\r\n"), is_allowed);
  EXPECT_THAT(answer_from("192.0.2.2", "X-Key: a\r\n"), is_refused);
  EXPECT_THAT(answer_from("192.0.2.2", "x-key: b\r\n"), is_allowed);
  EXPECT_THAT(answer_from("192.0.2.3", "X-Key: \r\n"), is_allowed);
  EXPECT_THAT(answer_from("192.0.2.1"), is_allowed);
  EXPECT_THAT(answer_from("192.0.2.1"), is_refused);
}

TEST_F(HttpRateLimit, TellsClientsApartByAFunction) {
  const auto by_query = [](const request& request) -> std::optional<std::string> {
    if (request.query_text() == "throw") throw std::runtime_error("no key");
    if (request.query_text().empty()) return std::nullopt;
    return std::string(request.query_text());
  };
  serve(rate_limit({.tokens = 1, .per = 1h}, by_query));
  EXPECT_THAT(answer_to(get("/?a")), is_allowed);
  EXPECT_THAT(answer_to(get("/?a")), is_refused);
  EXPECT_THAT(answer_to(get("/?b")), is_allowed);
  EXPECT_THAT(answer_to(get("/")), is_allowed);
  EXPECT_THAT(answer_to(get("/")), is_allowed);
  EXPECT_THAT(answer_to(get("/?throw")), StartsWith("HTTP/1.1 500 "));
}

TEST_F(HttpRateLimit, CopiesShareTheBuckets) {
  const rate_limit limit({.tokens = 1, .per = 1h});
  serve(limit);
  EXPECT_THAT(answer_to(get("/")), is_allowed);
  serve(limit);  // a second server
  EXPECT_THAT(answer_to(get("/")), is_refused);
}

TEST_F(HttpRateLimit, ALongWaitIsAtMostAYear) {
  serve(rate_limit({.tokens = 1, .per = std::chrono::years(50)}));
  answer_to(get("/"));
  EXPECT_THAT(answer_to(get("/")), HasSubstr("\r\nRetry-After: 31536000\r\n"));
}

TEST_F(HttpRateLimit, RefusesAnEmptyFunction) {
  EXPECT_THROW(rate_limit({.tokens = 1}, rate_limit::key_function()), std::invalid_argument);
  EXPECT_THROW(rate_limit({.tokens = 0}), std::invalid_argument);
}

}  // namespace
}  // namespace http_rate_limit_test
