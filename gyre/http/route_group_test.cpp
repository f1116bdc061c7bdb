// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/route_group.hpp>

#include <gyre/http/server_test_support.hpp>
#include <gyre/task/sleep.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace http_route_group_test {
namespace {

using namespace gyre::http::test;
using gyre::task;
using gyre::http::http_error;
using gyre::http::method;
using gyre::http::method_set;
using gyre::http::next_handler;
using gyre::http::request;
using gyre::http::response;
using gyre::http::route_group;
using gyre::http::status;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A middleware that adds its name to the response.
gyre::http::middleware named(std::string name) {
  return [name = std::move(name)](request& request, next_handler next) -> task<response> {
    task<response> rest = next.respond(request);
    response result = co_await std::move(rest);
    result.add("Passed", name);
    co_return result;
  };
}

response say_pattern(request& request) { return response::text(std::string(request.path())); }

class HttpRouteGroup : public server_fixture {
 protected:
  HttpRouteGroup() { make(); }
  // The names of the middleware that a request has passed, the innermost first.
  std::string passed_by(std::string_view bytes) {
    const std::string answer = answer_to(bytes);
    std::string names;
    for (std::size_t i = answer.find("Passed: "); i != std::string::npos;
         i = answer.find("Passed: ", i + 1)) {
      names += answer.substr(i + 8, answer.find('\r', i) - i - 8) + ' ';
    }
    return answer.substr(9, 4) + names;
  }
  static std::string ask(std::string_view method, std::string_view path,
                         std::string_view more = "") {
    return std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n" +
           std::string(more) + "\r\n";
  }
};

TEST_F(HttpRouteGroup, PrefixesItsRoutes) {
  route_group api = on->group("/api");
  api.get("/a", say_pattern).post("/a", say_pattern).get("", say_pattern).get("/", say_pattern);
  on->start();
  EXPECT_EQ(api.prefix(), "/api");
  EXPECT_THAT(answer_to(get("/api/a")), EndsWith("\r\n\r\n/api/a"));
  EXPECT_THAT(answer_to(post("/api/a", "")), EndsWith("\r\n\r\n/api/a"));
  EXPECT_THAT(answer_to(get("/api")), EndsWith("\r\n\r\n/api"));
  EXPECT_THAT(answer_to(get("/api/")), EndsWith("\r\n\r\n/api/"));
  EXPECT_THAT(answer_to(get("/a")), StartsWith("HTTP/1.1 404 "));
}

TEST_F(HttpRouteGroup, MiddlewareWrapsItsOwnRoutesOnly) {
  on->use(named("server"));
  route_group outer = on->group("/o");
  outer.get("/early", say_pattern);  // before the middleware was added
  outer.use(named("outer"));
  route_group inner = outer.group("/i");
  inner.use(named("inner1")).use(named("inner2"));
  inner.get("/x", say_pattern);
  on->get("/o/plain", say_pattern);  // belongs to the server, though the prefix fits
  on->start();
  EXPECT_EQ(inner.prefix(), "/o/i");
  EXPECT_EQ(passed_by(get("/o/early")), "200 outer server ");
  EXPECT_EQ(passed_by(get("/o/i/x")), "200 inner2 inner1 outer server ");
  EXPECT_EQ(passed_by(get("/o/plain")), "200 server ");
}

TEST_F(HttpRouteGroup, RequestsWithoutARouteBelongToTheLongestPrefix) {
  on->get("/", say_pattern);
  route_group outer = on->group("/o");
  outer.use(named("outer"));
  outer.group("/i").use(named("inner")).get("/x", say_pattern);
  on->group("/o").use(named("second"));
  on->start();
  EXPECT_EQ(passed_by(get("/")), "200 ");
  EXPECT_EQ(passed_by(get("/other")), "404 ");
  EXPECT_EQ(passed_by(get("/other/o")), "404 ");
  EXPECT_EQ(passed_by(get("/o")), "404 outer ");
  EXPECT_EQ(passed_by(get("/o/")), "404 outer ");
  EXPECT_EQ(passed_by(get("/o/none/at/all")), "404 outer ");
  EXPECT_EQ(passed_by(get("/%6F/i/none")), "404 inner outer ");
  EXPECT_EQ(passed_by(get("/o/ix")), "404 outer ");
  EXPECT_EQ(passed_by(get("/ox")), "404 ");
}

TEST_F(HttpRouteGroup, OtherMethodsBelongToAGroupOfThePath) {
  on->group("").use(named("readers")).get("/a", say_pattern);
  on->group("").use(named("writers")).put("/a", say_pattern);
  on->start();
  EXPECT_EQ(passed_by(ask("POST", "/a", "Content-Length: 0\r\n")), "405 readers ");
  EXPECT_EQ(passed_by(ask("OPTIONS", "/a")), "204 readers ");
  EXPECT_EQ(passed_by(ask("OPTIONS", "/a", "Access-Control-Request-Method: PUT\r\n")),
            "204 writers ");
  EXPECT_EQ(passed_by(ask("OPTIONS", "/a", "Access-Control-Request-Method: BREW\r\n")),
            "204 readers ");
  EXPECT_EQ(passed_by(ask("OPTIONS", "*")), "204 ");
  EXPECT_EQ(passed_by(get("/none")), "404 ");
}

TEST_F(HttpRouteGroup, ParametersOfThePrefixAreForAllHandlersAndMiddleware) {
  std::string tenants;
  route_group tenant = on->group("/t/{tenant}");
  tenant.use([&](request& request, next_handler next) -> task<response> {
    tenants += request.param("tenant") + '[' + request.param("*") + "] ";
    task<response> rest = next(request);
    co_return co_await std::move(rest);
  });
  tenant.get("/users/{id}", [](request& request) {
    return response::text(request.param("tenant") + "/" + request.param("id"));
  });
  on->start();
  EXPECT_THAT(answer_to(get("/t/a%20b/users/7")), EndsWith("\r\n\r\na b/7"));
  EXPECT_THAT(answer_to(get("/t/c/none")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(answer_to(get("/t/d")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(answer_to(post("/t/e/users/7", "")), StartsWith("HTTP/1.1 405 "));
  EXPECT_EQ(tenants, "a b[] c[] d[] e[] ");
}

TEST_F(HttpRouteGroup, AMiddlewareThatRefusesGuardsUnknownPathsToo) {
  route_group admin = on->group("/admin");
  admin.use([](request&, next_handler) -> task<response> { co_return status::unauthorized; });
  admin.get("/users", say_pattern);
  on->start();
  for (const char* path : {"/admin/users", "/admin/none", "/admin", "/%61dmin/users"}) {
    EXPECT_THAT(answer_to(get(path)), StartsWith("HTTP/1.1 401 ")) << path;
  }
  EXPECT_THAT(answer_to(post("/admin/users", "x")), StartsWith("HTTP/1.1 401 "));
}

TEST_F(HttpRouteGroup, MiddlewareMayReadTheBodyOfARequestWithoutARoute) {
  std::string bodies;
  on->group("/g").use([&](request& request, next_handler next) -> task<response> {
    bodies += request.body();
    task<response> rest = next(request);
    co_return co_await std::move(rest);
  });
  on->start();
  EXPECT_THAT(answer_to(post("/g/none", "text")), StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(bodies, "text");
}

TEST_F(HttpRouteGroup, RoutesForAnyMethodLeaveOthersTheirs) {
  on->any("/a",
          [](request& request) { return response::text(std::string(request.method_text())); });
  on->get("/a", [](request&) { return response::text("own"); });
  on->route({method::put, method::patch}, "/b", say_pattern);
  on->start();
  EXPECT_THAT(answer_to(get("/a")), EndsWith("\r\n\r\nown"));
  for (const char* each : {"DELETE", "OPTIONS", "PROPFIND"}) {
    EXPECT_THAT(answer_to(ask(each, "/a")), EndsWith("\r\n\r\n" + std::string(each)));
  }
  EXPECT_THAT(answer_to(ask("PATCH", "/b")), EndsWith("\r\n\r\n/b"));
  EXPECT_THAT(answer_to(get("/b")),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("\r\nAllow: PUT, OPTIONS, PATCH\r\n")));
  EXPECT_THROW(on->group("").any("/late", say_pattern), std::logic_error);
}

TEST_F(HttpRouteGroup, RefusesMalformedPrefixes) {
  for (const char* prefix : {"/", "/a/", "a", "/{", "/{rest...}", "/../a", "/{x}/{x}"}) {
    EXPECT_THROW(static_cast<void>(on->group(prefix)), std::invalid_argument) << prefix;
  }
  route_group group = on->group("/a");
  EXPECT_THROW(static_cast<void>(group.group("/")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(group.group("b")), std::invalid_argument);
  EXPECT_THROW(group.get("b", say_pattern), std::invalid_argument);
  EXPECT_THROW(on->group("").get("", say_pattern), std::invalid_argument);
  group.any("/b", say_pattern);
  EXPECT_THROW(group.any("/b", say_pattern), std::invalid_argument);
  on->start();
  EXPECT_THAT(answer_to(get("/a/b")), StartsWith("HTTP/1.1 200 "));
  EXPECT_THROW(static_cast<void>(on->group("/b")), std::logic_error);
  EXPECT_THROW(static_cast<void>(group.group("/b")), std::logic_error);
  EXPECT_THROW(group.use(named("late")), std::logic_error);
  EXPECT_THROW(group.get("/c", say_pattern), std::logic_error);
}

TEST_F(HttpRouteGroup, AHandleMayOutliveItsServer) {
  route_group group = on->group("/a");
  on.reset();
  group.use(named("late")).get("/b", say_pattern);
  EXPECT_EQ(group.prefix(), "/a");
}

// --- next_handler::respond() ---

TEST_F(HttpRouteGroup, RespondTurnsExceptionsIntoResponses) {
  int reports = 0;
  on->on_error([&](const request&, std::exception_ptr) { ++reports; });
  on->use(named("m"));
  on->get("/refused", [](request&) -> response { throw http_error(status::conflict, "taken"); });
  on->get("/failed", [](request&) -> response { throw std::runtime_error("secret"); });
  on->start();
  EXPECT_THAT(answer_to(get("/refused")),
              AllOf(StartsWith("HTTP/1.1 409 "), HasSubstr("\r\nPassed: m\r\n"),
                    EndsWith("\r\n\r\ntaken\n")));
  EXPECT_EQ(reports, 0);
  EXPECT_THAT(
      answer_to(get("/failed")),
      AllOf(StartsWith("HTTP/1.1 500 "), HasSubstr("\r\nPassed: m\r\n"), Not(HasSubstr("secret"))));
  EXPECT_EQ(reports, 1);
}

TEST_F(HttpRouteGroup, RespondPassesOnTheExceptionOfAHandlerWhoseClientHasLeft) {
  int reports = 0;
  bool has_thrown = false;
  on->on_error([&](const request&, std::exception_ptr) { ++reports; });
  on->use([&](request& request, next_handler next) -> task<response> {
    try {
      task<response> rest = next.respond(request);
      co_return co_await std::move(rest);
    } catch (...) {
      has_thrown = true;
      throw;
    }
  });
  on->get("/", [](request&) -> task<response> {
    co_await gyre::sleep_for(std::chrono::hours{1});
    co_return status::ok;
  });
  on->start();
  {
    peer client = connect();
    client.send(get("/"));
    virtual_time.turn_until([&] { return on->metrics().active == 1; });
  }
  virtual_time.turn_until([&] { return on->metrics().active == 0; });
  EXPECT_TRUE(has_thrown);
  EXPECT_EQ(reports, 0);
}

// --- Attachments ---

TEST_F(HttpRouteGroup, AttachmentsLiveUntilTheRequestEnds) {
  struct counted {
    explicit counted(int& alive) : alive_(&alive) { ++*alive_; }
    counted(counted&& other) noexcept : alive_(std::exchange(other.alive_, nullptr)) {}
    counted& operator=(counted&&) = delete;
    ~counted() {
      if (alive_ != nullptr) --*alive_;
    }
    int* alive_;
  };
  int alive = 0;
  int alive_in_handler = 0;
  on->use([&](request& request, next_handler next) -> task<response> {
    request.attach(counted(alive));
    std::string& name = request.attach(std::string("Ada"));
    request.attach(7);
    request.attach(8);
    name += " Lovelace";  // valid although others were attached since
    task<response> rest = next(request);
    co_return co_await std::move(rest);
  });
  on->get("/", [&](request& request) {
    alive_in_handler = alive;
    const gyre::http::request& same = request;
    EXPECT_EQ(same.attachment<double>(), nullptr);
    EXPECT_EQ(*same.attachment<int>(), 8);
    return response::text(*request.attachment<std::string>());
  });
  on->start();
  peer client = connect();
  for (int i = 0; i != 3; ++i) {
    client.send(get("/"));
    EXPECT_THAT(next_response(client), EndsWith("\r\n\r\nAda Lovelace"));
    EXPECT_EQ(alive_in_handler, 1);
    EXPECT_EQ(alive, 0);
  }
}

}  // namespace
}  // namespace http_route_group_test
