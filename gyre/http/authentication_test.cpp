// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/basic_authentication.hpp>
#include <gyre/http/bearer_authentication.hpp>

#include <gyre/base/detail/base64.hpp>
#include <gyre/http/cors.hpp>
#include <gyre/http/server_test_support.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/sync_wait.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http_authentication_test {
namespace {

using namespace gyre::http::test;
using gyre::task;
using gyre::http::authenticated_user;
using gyre::http::basic_authentication;
using gyre::http::bearer_authentication;
using gyre::http::known_users;
using gyre::http::request;
using gyre::http::response;
using gyre::http::status;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

struct session {
  int number;
};

std::string basic(std::string_view login) {
  return "Authorization: Basic " + gyre::detail::encode_base64(std::as_bytes(std::span(login))) +
         "\r\n";
}

class HttpAuthentication : public server_fixture {
 protected:
  void start(gyre::http::middleware authentication) {
    make();
    on->on_error([this](const request&, const std::exception_ptr&) { ++errors; });
    on->use(std::move(authentication));
    on->get("/", [](request& request) {
      const auto* const user = request.attachment<authenticated_user>();
      const auto* const number = request.attachment<session>();
      return response::text(user != nullptr     ? user->name
                            : number != nullptr ? std::to_string(number->number)
                                                : "nobody");
    });
    on->start();
  }
  std::string answer_with(std::string_view fields) { return answer_to(get("/", fields)); }

  int errors = 0;
};

TEST_F(HttpAuthentication, BasicAttachesTheUser) {
  start(basic_authentication("notes", known_users{{"ada", "secret"}, {"grace", "a:b"}}));
  EXPECT_THAT(answer_with(basic("ada:secret")), EndsWith("\r\n\r\nada"));
  EXPECT_THAT(answer_with(basic("grace:a:b")), EndsWith("\r\n\r\ngrace"));
  EXPECT_THAT(answer_with("authorization: bASIC   YWRhOnNlY3JldA==\r\n"), EndsWith("\r\n\r\nada"));
}

TEST_F(HttpAuthentication, BasicChallengesOtherRequests) {
  start(basic_authentication("my \"notes\"", known_users{{"ada", "secret"}, {"grace", "other"}}));
  const auto refused = AllOf(
      StartsWith("HTTP/1.1 401 Unauthorized\r\n"),
      HasSubstr("\r\nWWW-Authenticate: Basic realm=\"my \\\"notes\\\"\", charset=\"UTF-8\"\r\n"));
  EXPECT_THAT(answer_with(""), refused);
  EXPECT_THAT(answer_to(get("/none")), refused);
  for (const std::string& login :
       {std::string("ada:other"), std::string("grace:secret"), std::string("ada:"),
        std::string(":secret"), std::string("ada"), std::string(), std::string("ada:secret\n"),
        std::string("ada\0:secret", 11), std::string("ADA:secret"), std::string("ada:secret "),
        std::string(20000, 'a') + ":" + std::string(2000, 'b')}) {
    EXPECT_THAT(answer_with(basic(login)), refused) << login.substr(0, 20);
  }
  for (const char* fields :
       {"Authorization: Basic\r\n", "Authorization: Basic YWRhOnNlY3JldA\r\n",
        "Authorization: Basic YWRhOnNlY3JldA== x\r\n", "Authorization: Basic *\r\n",
        "Authorization: Bearer YWRhOnNlY3JldA==\r\n", "Authorization: YWRhOnNlY3JldA==\r\n",
        "Authorization:\r\n", "Authorization: BasicYWRhOnNlY3JldA==\r\n",
        "Authorization: Basic YWRhOnNlY3JldA==\r\nAuthorization: Basic YWRhOnNlY3JldA==\r\n"}) {
    EXPECT_THAT(answer_with(fields), refused) << fields;
  }
}

TEST_F(HttpAuthentication, BasicTakesVerifiersOfSeveralForms) {
  const auto is_ada = [](std::string_view name, std::string_view password) {
    return name == "ada" && password == "secret";
  };
  start(basic_authentication("a", is_ada));
  EXPECT_THAT(answer_with(basic("ada:secret")), EndsWith("\r\n\r\nada"));
  EXPECT_THAT(answer_with(basic("ada:wrong")), StartsWith("HTTP/1.1 401 "));
  start(basic_authentication("a",
                             [&](std::string_view name, std::string_view password) -> task<bool> {
                               co_await gyre::sleep_for(std::chrono::milliseconds{0});
                               co_return is_ada(name, password);
                             }));
  EXPECT_THAT(answer_with(basic("ada:secret")), EndsWith("\r\n\r\nada"));
  EXPECT_THAT(answer_with(basic("ada:wrong")), StartsWith("HTTP/1.1 401 "));
  start(basic_authentication(
      "a", [&](std::string_view name, std::string_view password) -> std::optional<session> {
        if (!is_ada(name, password)) return std::nullopt;
        return session{7};
      }));
  EXPECT_THAT(answer_with(basic("ada:secret")), EndsWith("\r\n\r\n7"));
  EXPECT_THAT(answer_with(basic("ada:wrong")), StartsWith("HTTP/1.1 401 "));
}

TEST_F(HttpAuthentication, BearerAttachesTheUser) {
  start(bearer_authentication("api", known_users{{"ci", "abc-._~+/9=="}, {"ada", "x"}}));
  EXPECT_THAT(answer_with("Authorization: Bearer abc-._~+/9==\r\n"), EndsWith("\r\n\r\nci"));
  EXPECT_THAT(answer_with("Authorization: bearer  x\r\n"), EndsWith("\r\n\r\nada"));
}

TEST_F(HttpAuthentication, BearerChallengesOtherRequests) {
  start(bearer_authentication("api", known_users{{"ci", "token"}}));
  const auto refused = [](std::string_view status_text, std::string_view error) {
    return AllOf(
        StartsWith("HTTP/1.1 " + std::string(status_text)),
        HasSubstr("\r\nWWW-Authenticate: Bearer realm=\"api\"" + std::string(error) + "\r\n"));
  };
  EXPECT_THAT(answer_with(""), refused("401 Unauthorized\r\n", ""));
  EXPECT_THAT(answer_with("Authorization: Basic dG9rZW4=\r\n"), refused("401 ", ""));
  EXPECT_THAT(answer_to(get("/?access_token=token")), refused("401 ", ""));
  const std::string invalid = ", error=\"invalid_token\"";
  for (const char* token : {"toke", "tokenx", "Token", "token="}) {
    EXPECT_THAT(answer_with("Authorization: Bearer " + std::string(token) + "\r\n"),
                refused("401 ", invalid))
        << token;
  }
  const std::string malformed = ", error=\"invalid_request\"";
  for (const char* fields :
       {"Authorization: Bearer\r\n", "Authorization: Bearer token token\r\n",
        "Authorization: Bearer \"token\"\r\n", "Authorization: Bearer ==\r\n",
        "Authorization: Bearer to=ken\r\n", "Authorization: Bearer t\xc3\xb6ken\r\n",
        "Authorization: Bearer token\r\nAuthorization: Bearer token\r\n"}) {
    EXPECT_THAT(answer_with(fields), refused("400 ", malformed)) << fields;
  }
}

TEST_F(HttpAuthentication, BearerTakesVerifiersOfSeveralForms) {
  start(bearer_authentication("a", [](std::string_view token) -> task<std::optional<session>> {
    co_await gyre::sleep_for(std::chrono::milliseconds{0});
    if (token != "token") co_return std::nullopt;
    co_return session{7};
  }));
  EXPECT_THAT(answer_with("Authorization: Bearer token\r\n"), EndsWith("\r\n\r\n7"));
  EXPECT_THAT(answer_with("Authorization: Bearer wrong\r\n"), StartsWith("HTTP/1.1 401 "));
  start(bearer_authentication("a", [](std::string_view token) { return token == "token"; }));
  EXPECT_THAT(answer_with("Authorization: Bearer token\r\n"), EndsWith("\r\n\r\nnobody"));
  EXPECT_THAT(answer_with("Authorization: Bearer wrong\r\n"), StartsWith("HTTP/1.1 401 "));
}

TEST_F(HttpAuthentication, AVerifierThatThrowsLetsNobodyIn) {
  start(bearer_authentication("a", [](std::string_view token) -> bool {
    if (token == "busy") throw gyre::http::http_error(status::service_unavailable);
    throw std::runtime_error("the database is away");
  }));
  EXPECT_THAT(answer_with("Authorization: Bearer busy\r\n"), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(errors, 0);
  EXPECT_THAT(answer_with("Authorization: Bearer token\r\n"), StartsWith("HTTP/1.1 500 "));
  EXPECT_EQ(errors, 1);
}

// Handlers, middleware and verifiers of all loops run at the same time.
TEST(HttpAuthenticationOnLoops, NoUserGetsTheResponseOfAnother) {
  gyre::loop_pool loops(2);
  gyre::http::server on(loops, gyre::net::test::any_port(),
                        {.tcp = {.strategy = gyre::net::accept_strategy::round_robin}});
  on.use(gyre::http::cors({.origins = {"https://*.example.org"}}));
  auto users = on.group("/users");
  users.use(bearer_authentication("a", [](std::string_view token) -> task<std::optional<session>> {
    co_await gyre::sleep_for(std::chrono::milliseconds{1});
    const auto number = gyre::http::parameter_traits<int>::parse(token.substr(1));
    if (!number) co_return std::nullopt;
    co_return session{*number};
  }));
  users.get("/{id}", [](request& request) -> task<response> {
    co_await gyre::sleep_for(std::chrono::milliseconds{1});
    co_return response::text(std::to_string(request.attachment<session>()->number) + " " +
                             std::to_string(request.param<int>("id")) + " " +
                             std::to_string(request.query<int>("page", 0)));
  });
  on.start();
  gyre::loop here;
  std::vector<std::unique_ptr<peer>> clients;
  for (int i = 0; i != 12; ++i) clients.push_back(std::make_unique<peer>(on.local_endpoint()));
  for (int round = 0; round != 10; ++round) {
    for (std::size_t i = 0; i != clients.size(); ++i) {
      const std::string number = std::to_string(i);
      clients[i]->send(get("/users/" + number + "?page=" + std::to_string(round),
                           "Origin: https://u" + number + ".example.org\r\n" +
                               "Authorization: Bearer t" + number + "\r\n"));
    }
    for (std::size_t i = 0; i != clients.size(); ++i) {
      std::optional<std::string> answer;
      gyre::net::test::turn_until(here, [&] {
        clients[i]->receive();
        answer = take_response(clients[i]->text);
        return answer.has_value();
      });
      const std::string number = std::to_string(i);
      EXPECT_THAT(*answer, AllOf(HasSubstr("-Origin: https://u" + number + ".example.org\r\n"),
                                 EndsWith("\r\n\r\n" + number + " " + number + " " +
                                          std::to_string(round))));
    }
  }
  gyre::sync_wait(on.stop_async(std::chrono::seconds{0}));
}

TEST(HttpAuthenticationOptions, MalformedOnesAreRefused) {
  const known_users users{{"a", "b"}};
  for (const char* realm : {"a\r\nb", "\x7f", "\xc3\xa9"}) {
    EXPECT_THROW(static_cast<void>(basic_authentication(realm, users)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(bearer_authentication(realm, users)), std::invalid_argument);
  }
  EXPECT_THROW(known_users({{"a", "x"}, {"a", "y"}}), std::invalid_argument);
  EXPECT_THROW(known_users({{"", "x"}}), std::invalid_argument);
  EXPECT_THROW(known_users({{"a:b", "x"}}), std::invalid_argument);
  EXPECT_THROW(known_users({{"a", ""}}), std::invalid_argument);
}

}  // namespace
}  // namespace http_authentication_test
