// SPDX-License-Identifier: Apache-2.0
// Tests of the router.
#include <gyre/http/router.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace router_test {
namespace {

using gyre::http::method;
using gyre::http::method_set;
using gyre::http::route_outcome;
using router = gyre::http::basic_router<std::string>;

router all_for_get(std::initializer_list<std::string_view> patterns) {
  router routes;
  for (const auto each : patterns) routes.add(method::get, each, std::string(each));
  return routes;
}

std::string found(const router& routes, std::string_view path, method which = method::get) {
  const auto match = routes.find(which, path);
  return match ? *match.handler : "none";
}

TEST(Router, LiteralsBeatParametersBeatTheRest) {
  const router routes = all_for_get(
      {"/", "/a", "/a/", "/a/b", "/a/{x}", "/a/{x}/c", "/a/{rest...}", "/{y}/b", "/{y}/b/d"});
  EXPECT_EQ(found(routes, "/"), "/");
  EXPECT_EQ(found(routes, "/a"), "/a");
  EXPECT_EQ(found(routes, "/a/"), "/a/");
  EXPECT_EQ(found(routes, "/a/b"), "/a/b");
  EXPECT_EQ(found(routes, "/a/z"), "/a/{x}");
  EXPECT_EQ(found(routes, "/a/z/c"), "/a/{x}/c");
  EXPECT_EQ(found(routes, "/a/z/d"), "/a/{rest...}");
  EXPECT_EQ(found(routes, "/z/b"), "/{y}/b");
  EXPECT_EQ(found(routes, "/z/b/d"), "/{y}/b/d");
  EXPECT_EQ(found(routes, "/z"), "none");
  EXPECT_EQ(found(routes, "//b"), "none");
  EXPECT_EQ(found(routes, "a"), "none");
  EXPECT_EQ(found(routes, ""), "none");
  EXPECT_EQ(found(routes, "*"), "none");
}

TEST(Router, AMatchIsUsedAgain) {
  router routes = all_for_get({"/a/{x}", "/b"});
  gyre::http::route_match<std::string> match;
  routes.find(method::get, "/a/1", match);
  EXPECT_EQ(match.parameters.raw("x"), "1");
  routes.find(method::post, "/b", match);
  EXPECT_FALSE(match);
  EXPECT_EQ(match.outcome, gyre::http::route_outcome::not_allowed);
  EXPECT_TRUE(match.parameters.empty());
  routes.find(method::get, "/c", match);
  EXPECT_EQ(match.outcome, gyre::http::route_outcome::not_found);
  EXPECT_TRUE(match.allowed.empty());
}

TEST(Router, ManyLiteralsAreFoundAsFewAre) {
  std::vector<std::string> patterns;
  for (char each = 'a'; each <= 'z'; ++each) patterns.push_back(std::string("/") + each);
  router routes;
  for (const std::string& each : patterns) {
    routes.add(method::get, each, each);
    for (const std::string& known : patterns) {
      EXPECT_EQ(found(routes, known), known <= each ? known : "none");
    }
  }
}

TEST(Router, LessSpecificPatternsAreTriedWhenOthersFail) {
  const router routes = all_for_get({"/a/{x}/c", "/{y}/b/d"});
  const auto match = routes.find(method::get, "/a/b/d");
  ASSERT_TRUE(match);
  EXPECT_EQ(*match.handler, "/{y}/b/d");
  ASSERT_EQ(match.parameters.size(), 1U);
  EXPECT_EQ(match.parameters.get("y"), "a");
}

TEST(Router, ParametersAreDecodedAfterTheSplit) {
  const router routes = all_for_get({"/users/{id}/files/{path...}"});
  const auto match = routes.find(method::get, "/users/a%2Fb%20c/files/x/y%2fz");
  ASSERT_TRUE(match);
  EXPECT_EQ(match.parameters.get("id"), "a/b c");
  EXPECT_EQ(match.parameters.raw("id"), "a%2Fb%20c");
  EXPECT_EQ(match.parameters.get("path"), "x/y/z");
  EXPECT_EQ(match.parameters.get("none"), std::nullopt);
  std::array<char, 16> memory{};
  EXPECT_EQ(match.parameters.get("id", memory), "a/b c");
  EXPECT_EQ(routes.find(method::get, "/users/a/files/").parameters.get("path"), "");
  EXPECT_FALSE(routes.find(method::get, "/users/a/files"));
  EXPECT_FALSE(routes.find(method::get, "/users//files/x"));
}

TEST(Router, LiteralsMatchEncodedSegments) {
  const router routes = all_for_get({"/caf%C3%A9/a b", "/users", "/used"});
  EXPECT_EQ(found(routes, "/caf%c3%a9/a%20b"), "/caf%C3%A9/a b");
  EXPECT_EQ(found(routes, "/%75sers"), "/users");
  EXPECT_EQ(found(routes, "/Users"), "none");
}

TEST(Router, DotsAndMalformedSegmentsMatchNothing) {
  const router routes = all_for_get({"/{x}", "/files/{rest...}"});
  for (const std::string_view each : {"/.", "/..", "/%2e%2E", "/.%2e", "/%", "/%4", "/files/../a",
                                      "/files/a/%2e./b", "/files/a/%zz", "/files/."}) {
    EXPECT_EQ(routes.find(method::get, each).outcome, route_outcome::not_found) << each;
  }
  EXPECT_EQ(found(routes, "/..."), "/{x}");
  EXPECT_EQ(found(routes, "/files/a//b"), "/files/{rest...}");
}

TEST(Router, OtherMethodsAreNotAllowed) {
  router routes;
  routes.add(method::get, "/a/{x}", "get");
  routes.add(method::put, "/a/b", "put");
  routes.add(method::delete_, "/a/{x}", "delete");
  EXPECT_EQ(found(routes, "/a/b", method::put), "put");
  EXPECT_EQ(found(routes, "/a/b", method::get), "get");
  EXPECT_EQ(found(routes, "/a/b", method::head), "get");
  const auto refused = routes.find(method::post, "/a/b");
  EXPECT_EQ(refused.outcome, route_outcome::not_allowed);
  EXPECT_FALSE(refused);
  EXPECT_EQ(refused.allowed.to_string(), "GET, HEAD, PUT, DELETE, OPTIONS");
  EXPECT_TRUE(refused.parameters.empty());
  EXPECT_EQ(routes.find(method::other, "/a/c").outcome, route_outcome::not_allowed);
  EXPECT_EQ(routes.find(method::post, "/b").outcome, route_outcome::not_found);
}

TEST(Router, OptionsAreAnsweredUnlessThereIsAHandler) {
  router routes;
  routes.add(method::get, "/a", "get");
  const auto automatic = routes.find(method::options, "/a");
  EXPECT_EQ(automatic.outcome, route_outcome::options);
  EXPECT_EQ(automatic.allowed.to_string(), "GET, HEAD, OPTIONS");
  routes.add(method::options, "/a", "options");
  EXPECT_EQ(found(routes, "/a", method::options), "options");
}

TEST(Router, OneHandlerMayServeSeveralMethods) {
  router routes;
  routes.add("/any", "any");
  routes.add_for(method_set{method::put, method::post}, "/some", "some");
  EXPECT_EQ(found(routes, "/any", method::other), "any");
  EXPECT_EQ(found(routes, "/any", method::head), "any");
  EXPECT_EQ(found(routes, "/some", method::post), "some");
  EXPECT_EQ(found(routes, "/some", method::get), "none");
}

TEST(Router, AHandlerForAnyMethodLeavesOthersTheirs) {
  for (const bool any_first : {true, false}) {
    router routes;
    if (any_first) routes.add("/a", "any");
    routes.add(method::get, "/a", "get");
    routes.add(method::options, "/a", "options");
    if (!any_first) routes.add("/a", "any");
    EXPECT_EQ(found(routes, "/a", method::get), "get");
    EXPECT_EQ(found(routes, "/a", method::head), "get");
    EXPECT_EQ(found(routes, "/a", method::options), "options");
    EXPECT_EQ(found(routes, "/a", method::post), "any");
    EXPECT_EQ(found(routes, "/a", method::other), "any");
    EXPECT_THROW(routes.add("/a", "again"), std::invalid_argument);
    EXPECT_THROW(routes.add(method::get, "/a", "again"), std::invalid_argument);
  }
}

TEST(Router, BadPatternsAreQuoted) {
  router routes = all_for_get({"/a/{x}", "/b/{r...}"});
  std::string many, deep;
  for (int i = 0; i < 13; ++i) many += "/{p" + std::to_string(i) + '}';
  for (int i = 0; i < 65; ++i) deep += "/a";
  for (const std::string& each : {std::string(""),
                                  std::string("a"),
                                  std::string("/{}"),
                                  std::string("/{...}"),
                                  std::string("/{a"),
                                  std::string("/a}"),
                                  std::string("/{a}b"),
                                  std::string("/a{b}"),
                                  std::string("/{a...}/b"),
                                  std::string("/{a}/{a}"),
                                  std::string("/{a b}"),
                                  std::string("/{a.b}"),
                                  std::string("/{{a}}"),
                                  std::string("/%4"),
                                  std::string("/a/../b"),
                                  std::string("/a/{x}"),
                                  std::string("/a/{y}"),
                                  std::string("/a/{y}/b"),
                                  std::string("/b/{s...}"),
                                  std::string("/b/{r...}"),
                                  many,
                                  deep}) {
    try {
      routes.add(method::get, each, "x");
      ADD_FAILURE() << each << " was accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string_view(error.what()).find('\'' + each + '\''), std::string_view::npos)
          << error.what();
    }
  }
  EXPECT_EQ(routes.size(), 2U);
  routes.add(method::put, "/a/{x}", "put");
  EXPECT_EQ(found(routes, "/a/1"), "/a/{x}");
}

}  // namespace
}  // namespace router_test
