// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/cors.hpp>

#include <gyre/http/detail/origin_list.hpp>
#include <gyre/http/server_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace http_cors_test {
namespace {

using namespace gyre::http::test;
using gyre::http::cors;
using gyre::http::cors_options;
using gyre::http::method;
using gyre::http::request;
using gyre::http::response;
using gyre::http::status;
using gyre::http::detail::contains_origin;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class HttpCors : public server_fixture {
 protected:
  void start(const cors_options& options) {
    make();
    on->on_error([](const request&, const std::exception_ptr&) {});
    on->use(cors(options));
    on->get("/a", [](request&) { return response::text("a"); });
    on->put("/a", [](request&) { return response::text("put"); });
    on->get("/refused",
            [](request&) -> response { throw gyre::http::http_error(status::not_found); });
    on->get("/failed", [](request&) -> response { throw std::runtime_error("failed"); });
    on->any("/any", [](request&) { return response::text("any"); });
    on->get("/varies", [](request&) { return response::text("v").set("Vary", "Accept, origin"); });
    on->start();
  }
  std::string preflight(std::string_view path, std::string_view origin,
                        std::string_view method = "PUT") {
    return answer_to("OPTIONS " + std::string(path) +
                     " HTTP/1.1\r\nHost: a\r\nOrigin: " + std::string(origin) +
                     "\r\nAccess-Control-Request-Method: " + std::string(method) +
                     "\r\nAccess-Control-Request-Headers: content-type\r\n\r\n");
  }
  std::string get_from(std::string_view path, std::string_view origin) {
    return answer_to(get(path, "Origin: " + std::string(origin) + "\r\n"));
  }
};

constexpr std::string_view app = "https://app.example.org";

TEST_F(HttpCors, RespondsToPreflightRequests) {
  start({.origins = {std::string(app)}});
  EXPECT_EQ(preflight("/a", app),
            "HTTP/1.1 204 No Content\r\n"
            "Access-Control-Allow-Origin: https://app.example.org\r\n"
            "Access-Control-Allow-Methods: GET, HEAD, PUT, OPTIONS\r\n"
            "Access-Control-Allow-Headers: Authorization, Content-Type\r\n"
            "Access-Control-Max-Age: 600\r\n"
            "Vary: Origin\r\n\r\n");
  EXPECT_THAT(
      preflight("/any", app),
      HasSubstr("\r\nAccess-Control-Allow-Methods: GET, HEAD, POST, PUT, DELETE, PATCH\r\n"));
  EXPECT_THAT(preflight("/none", app), StartsWith("HTTP/1.1 204 "));
}

TEST_F(HttpCors, RefusesPreflightRequestsOfOtherOrigins) {
  start({.origins = {std::string(app)}, .allow_credentials = true});
  for (const char* origin : {"https://evil.example", "null", "http://app.example.org",
                             "https://app.example.org.evil", "https://app.example.org:444",
                             "https://APP.example.org", "https://app.example.org/", "*"}) {
    EXPECT_THAT(preflight("/a", origin),
                AllOf(StartsWith("HTTP/1.1 403 "), Not(HasSubstr("Access-Control-")),
                      HasSubstr("\r\nVary: Origin\r\n")))
        << origin;
  }
  EXPECT_THAT(preflight("/a", "https://app.example.org\r\nOrigin: https://app.example.org"),
              AllOf(StartsWith("HTTP/1.1 403 "), Not(HasSubstr("Access-Control-"))));
}

TEST_F(HttpCors, LetsAllowedOriginsReadResponses) {
  start({.origins = {std::string(app)},
         .response_fields = {"ETag", "Location"},
         .allow_credentials = true});
  EXPECT_EQ(get_from("/a", app),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Access-Control-Allow-Origin: https://app.example.org\r\n"
            "Access-Control-Allow-Credentials: true\r\n"
            "Access-Control-Expose-Headers: ETag, Location\r\n"
            "Vary: Origin\r\nContent-Length: 1\r\n\r\na");
  for (const auto& answer : {answer_to(get("/a")), get_from("/a", "https://evil.example")}) {
    EXPECT_EQ(answer,
              "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
              "Vary: Origin\r\nContent-Length: 1\r\n\r\na");
  }
  EXPECT_THAT(get_from("/varies", app),
              AllOf(HasSubstr("\r\nVary: Accept, origin\r\n"), Not(HasSubstr("Vary: Origin"))));
}

TEST_F(HttpCors, ErrorsCanBeReadAsWell) {
  start({.origins = {std::string(app)}});
  for (const char* path : {"/refused", "/failed", "/none"}) {
    EXPECT_THAT(get_from(path, app),
                HasSubstr("\r\nAccess-Control-Allow-Origin: https://app.example.org\r\n"))
        << path;
  }
}

TEST_F(HttpCors, AnOptionsRequestWithoutAMethodIsNoPreflight) {
  start({.origins = {std::string(app)}});
  EXPECT_THAT(
      answer_to("OPTIONS /a HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example.org\r\n\r\n"),
      AllOf(HasSubstr("\r\nAllow: GET, HEAD, PUT, OPTIONS\r\n"),
            Not(HasSubstr("Access-Control-Allow-Methods"))));
  EXPECT_THAT(answer_to("OPTIONS /a HTTP/1.1\r\nHost: a\r\n"
                        "Access-Control-Request-Method: PUT\r\n\r\n"),
              HasSubstr("\r\nAllow: "));
}

TEST_F(HttpCors, AnyOriginIsAnsweredByAStar) {
  start({.origins = {"*"},
         .methods = {method::get},
         .request_fields = {},
         .max_age = std::chrono::milliseconds{2500}});
  EXPECT_EQ(preflight("/a", "https://x.example"),
            "HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: *\r\n"
            "Access-Control-Allow-Methods: GET\r\nAccess-Control-Max-Age: 2\r\n\r\n");
  EXPECT_THAT(get_from("/a", "null"),
              AllOf(HasSubstr("\r\nAccess-Control-Allow-Origin: *\r\n"), Not(HasSubstr("Vary"))));
}

TEST_F(HttpCors, AGroupHasItsOwn) {
  make();
  auto api = on->group("/api");
  api.use(cors({.origins = {std::string(app)}}));
  api.put("/a", [](request&) { return response::text("put"); });
  on->put("/a", [](request&) { return response::text("put"); });
  on->start();
  EXPECT_THAT(preflight("/api/a", app),
              HasSubstr("\r\nAccess-Control-Allow-Methods: PUT, OPTIONS"));
  EXPECT_THAT(preflight("/a", app), Not(HasSubstr("Access-Control-")));
}

TEST(HttpCorsOptions, UnsafeAndMalformedOnesAreRefused) {
  for (const char* origin :
       {"", "null", "example.org", "https://", "https://example.org/", "https://Example.org",
        "https://example.org/path", "https://example.org:443", "http://example.org:80",
        "https://example.org:", "https://example.org:x", "https://user@example.org", "://a",
        "https://*", "https://a.*.org", "https://*.", "https://example.org\r\nX: y"}) {
    EXPECT_THROW(static_cast<void>(cors({.origins = {origin}})), std::invalid_argument) << origin;
  }
  EXPECT_THROW(static_cast<void>(cors({.origins = {"*", "https://a.example"}})),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(cors({.origins = {"*"}, .allow_credentials = true})),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(cors({.request_fields = {"*"}})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(cors({.response_fields = {"a b"}})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(cors({.max_age = std::chrono::seconds{-1}})),
               std::invalid_argument);
}

TEST(HttpOriginList, PatternsStandForOneLabel) {
  const std::vector<std::string> origins({"https://*.example.org", "http://*.test:8080",
                                          "http://localhost:3000", "http://[::1]:3000",
                                          "chrome-extension://abcdef"});
  for (const char* origin :
       {"https://a.example.org", "https://a-1.example.org", "http://b.test:8080",
        "http://localhost:3000", "http://[::1]:3000", "chrome-extension://abcdef"}) {
    EXPECT_TRUE(contains_origin(origins, origin)) << origin;
  }
  for (const char* origin :
       {"https://example.org", "https://.example.org", "https://a.b.example.org",
        "https://evil.org/.example.org", "https://evil.org:1.example.org", "http://a.example.org",
        "https://a.example.org:8443", "http://b.test", "http://localhost", "https://aexample.org",
        "https://user@a.example.org", "https://a.example.orgx", "", "https://"}) {
    EXPECT_FALSE(contains_origin(origins, origin)) << origin;
  }
  EXPECT_FALSE(contains_origin(origins, "https://" + std::string(64, 'a') + ".example.org"));
  EXPECT_FALSE(contains_origin({}, "https://a.example"));
}

}  // namespace
}  // namespace http_cors_test
