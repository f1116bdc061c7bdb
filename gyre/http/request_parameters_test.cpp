// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/request.hpp>

#include <gyre/http/server_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace http_request_parameters_test {

struct point {
  int x = 0;
};

}  // namespace http_request_parameters_test

// A stand-in for a JSON library: an integer is a point.
template <>
struct gyre::http::json_traits<http_request_parameters_test::point> {
  static http_request_parameters_test::point read(std::string_view text) {
    if (text.starts_with("{")) throw json_error::malformed(text);
    if (text.starts_with("\"")) throw json_error::mismatch("x is no integer");
    return {std::stoi(std::string(text))};  // throws exceptions of its own
  }
  static std::string write(const http_request_parameters_test::point& value) {
    return std::to_string(value.x);
  }
};

namespace http_request_parameters_test {
namespace {

using namespace gyre::http::test;
using gyre::http::request;
using gyre::http::response;
using gyre::http::status;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class HttpRequestParameters : public server_fixture {
 protected:
  HttpRequestParameters() { make(); }
  void expect_refusal(std::string_view path, const std::string& text) {
    EXPECT_THAT(answer_to(get(path)),
                AllOf(StartsWith("HTTP/1.1 400 "), EndsWith("\r\n\r\n" + text + "\n")))
        << path;
  }
};

TEST_F(HttpRequestParameters, PathsHaveTypedParameters) {
  on->get("/users/{id}", [](request& request) {
    return response::text(std::to_string(request.param<std::uint64_t>("id") + 1));
  });
  on->start();
  EXPECT_THAT(answer_to(get("/users/41")), EndsWith("\r\n\r\n42"));
  EXPECT_THAT(answer_to(get("/users/%34%31")), EndsWith("\r\n\r\n42"));
  const std::string text = "The parameter 'id' must be an integer from 0 to 18446744073709551615.";
  for (const char* path :
       {"/users/x", "/users/-1", "/users/1%00", "/users/1%20", "/users/18446744073709551616"}) {
    expect_refusal(path, text);
  }
  expect_refusal("/users/" + std::string(7000, '9'), text);
}

TEST_F(HttpRequestParameters, AParameterThatThePatternLacksIsAnErrorOfTheProgram) {
  std::string reported;
  on->on_error([&](const request&, const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::logic_error& failure) {
      reported = failure.what();
    }
  });
  on->get("/users/{id}", [](request& request) {
    return response::text(std::to_string(request.param<int>("name")));
  });
  on->start();
  EXPECT_THAT(answer_to(get("/users/7")), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(reported, HasSubstr("'name'"));
}

TEST_F(HttpRequestParameters, QueriesHaveTypedParameters) {
  on->get("/", [](request& request) {
    std::string text = std::to_string(request.query<int>("page", 1));
    text += request.query<bool>("all", false) ? " all" : " some";
    if (const auto limit = request.query<std::optional<unsigned>>("limit")) {
      text += " limit " + std::to_string(*limit);
    }
    for (const int each : request.query<std::vector<int>>("tag"))
      text += " t" + std::to_string(each);
    return response::text(text + " " + request.query<std::string>("q"));
  });
  on->start();
  EXPECT_THAT(answer_to(get("/?q=a+b%26")), EndsWith("\r\n\r\n1 some a b&"));
  EXPECT_THAT(answer_to(get("/?q=&page=-2&all=true&limit=0&tag=1&tag=2")),
              EndsWith("\r\n\r\n-2 all limit 0 t1 t2 "));
  EXPECT_THAT(answer_to(get("/?%71=x&p%61ge=7")), EndsWith("\r\n\r\n7 some x"));
  expect_refusal("/", "The parameter 'q' must be given: a text.");
  expect_refusal("/?q=x&page=",
                 "The parameter 'page' must be an integer from -2147483648 to 2147483647.");
  expect_refusal("/?q=x&page=1x",
                 "The parameter 'page' must be an integer from -2147483648 to 2147483647.");
  expect_refusal("/?q=x&page=1&page=2", "The parameter 'page' must be given once.");
  expect_refusal("/?q=x&all=yes", "The parameter 'all' must be true or false.");
  expect_refusal("/?q=x&limit=-1",
                 "The parameter 'limit' must be an integer from 0 to 4294967295.");
  expect_refusal("/?q=x&tag=1&tag=b",
                 "The parameter 'tag' must be an integer from -2147483648 to 2147483647.");
  EXPECT_THAT(answer_to(get("/?q=%zz")),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("\r\n\r\nThe query is malformed: ")));
}

TEST_F(HttpRequestParameters, AFallbackMayBeOfAnotherType) {
  on->get("/", [](request& request) {
    return response::text(request.query<std::string>("q", "none") + " " +
                          std::to_string(request.query<std::int64_t>("n", 5)));
  });
  on->start();
  EXPECT_THAT(answer_to(get("/")), EndsWith("\r\n\r\nnone 5"));
}

// --- JSON ---

std::string post_json(std::string_view body, std::string_view type = "application/json",
                      std::string_view more = "") {
  return post("/", body, "Content-Type: " + std::string(type) + "\r\n" + std::string(more));
}

class HttpJson : public server_fixture {
 protected:
  HttpJson() {
    make();
    on->post("/", [](request& request) {
      auto read = request.json<point>();
      ++read.x;
      return response::json(read, status::created);
    });
    on->start();
  }
};

TEST_F(HttpJson, BodiesAreReadAndWritten) {
  EXPECT_EQ(
      answer_to(post_json("41")),
      "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n42");
  for (const char* type : {"Application/JSON", "application/json; charset=utf-8",
                           "application/json;charset=\"UTF-8\"", "application/vnd.api+json"}) {
    EXPECT_THAT(answer_to(post_json("41", type)), EndsWith("\r\n\r\n42")) << type;
  }
  EXPECT_THAT(answer_to(post_json("1", "application/json", "Content-Encoding: identity\r\n")),
              EndsWith("\r\n\r\n2"));
}

TEST_F(HttpJson, OtherTypesAreAnsweredBy415) {
  const auto unsupported = StartsWith("HTTP/1.1 415 ");
  EXPECT_THAT(answer_to(post("/", "41")), unsupported);
  for (const char* type :
       {"text/plain", "application/x-www-form-urlencoded", "application/jsonp", "text/json", "json",
        "application/+json", "application/json, text/plain", "application/json; charset=latin1"}) {
    EXPECT_THAT(answer_to(post_json("41", type)), unsupported) << type;
  }
  EXPECT_THAT(answer_to(post_json("41", "application/json", "Content-Encoding: gzip\r\n")),
              unsupported);
}

TEST_F(HttpJson, OtherTextsAreAnsweredBy400And422) {
  EXPECT_THAT(answer_to(post_json("{")),
              AllOf(StartsWith("HTTP/1.1 400 "), EndsWith("\r\n\r\nThe body is not JSON: {.\n")));
  EXPECT_THAT(answer_to(post_json("\"a\"")),
              AllOf(StartsWith("HTTP/1.1 422 "),
                    EndsWith("\r\n\r\nThe JSON of the body is not of the expected form: x is no "
                             "integer.\n")));
  // For these bodies the JSON library throws an exception of its own.
  for (const char* body : {"", "abc", "99999999999999999999"}) {
    EXPECT_THAT(answer_to(post_json(body)),
                AllOf(StartsWith("HTTP/1.1 400 "), EndsWith("\r\n\r\nThe body is not JSON.\n")));
  }
}

TEST_F(HttpJson, DetailsAreShortAndHaveNoControlCharacters) {
  const std::string text =
      "{\x1b[31m\n" + std::string(192, 'x') + "\u00e9" + std::string(5000, 'y');
  EXPECT_THAT(answer_to(post_json(text)), EndsWith("\r\n\r\nThe body is not JSON: {?[31m?" +
                                                   std::string(192, 'x') + "\u2026.\n"));
}

TEST(HttpJsonResponse, TextsAreJsonAlready) {
  EXPECT_EQ(response::json("[1]").body(), "[1]");
  EXPECT_EQ(response::json(std::string("[2]")).body(), "[2]");
  EXPECT_EQ(response::json(point{3}).body(), "3");
}

TEST_F(HttpRequestParameters, JsonOfAStreamedBodyIsAnErrorOfTheProgram) {
  std::string reported;
  on->on_error([&](const request&, const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::logic_error& failure) {
      reported = failure.what();
    }
  });
  on->post("/", [](request& request) { return response::json(request.json<point>()); },
           {.streamed_body = true});
  on->start();
  EXPECT_THAT(answer_to(post_json("41")), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(reported, HasSubstr("streamed_body"));
}

}  // namespace
}  // namespace http_request_parameters_test
