// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of http's headers about servers.
#include <gyre/gyre.hpp>
#include <tests/header_examples/support.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace http_server_test {
namespace {

using header_examples::any_port;
using namespace std::chrono_literals;

std::string find_user(const std::string& id, std::string_view page) {
  return "user " + id + ", page " + std::string(page);
}

gyre::task<std::string> ask(gyre::net::endpoint at, std::string path) {
  auto connecting = gyre::net::connect(std::move(at));
  gyre::net::tcp_stream peer = co_await std::move(connecting);
  co_await peer.write_all("GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  std::string all;
  for (;;) {
    auto bytes = co_await peer.receive();
    if (bytes.empty()) break;
    all += bytes.text();
  }
  co_return all.substr(all.find("\r\n\r\n") + 4);
}

class HttpServerExamples : public testing::Test {
 protected:
  std::string get(std::string path) {
    if (!started_) server.start();
    started_ = true;
    return gyre::sync_wait(loop, ask(server.local_endpoint(), std::move(path)));
  }
  void TearDown() override { gyre::sync_wait(loop, stop()); }
  gyre::task<> stop() { co_await server.stop_async(0s); }

  gyre::loop loop;
  gyre::thread_pool workers{1};
  gyre::http::server server{loop, any_port()};

 private:
  bool started_ = false;
};

TEST_F(HttpServerExamples, HandlersHaveThreeForms) {
  // clang-format off
  // gyre/http/handler.hpp
  server.get("/now", [](gyre::http::request&) { return gyre::http::response::text("now"); });
  server.get("/soon", [](gyre::http::request&) -> gyre::task<gyre::http::response> {
    co_await gyre::sleep_for(1s);
    co_return gyre::http::response::text("soon");
  });
  server.get("/later", [&](gyre::http::request&, gyre::http::responder answer) {
    workers.post([answer = std::move(answer)] {
      answer.send(gyre::http::response::text("later"));
    });
  });
  // clang-format on
  EXPECT_EQ(get("/now"), "now");
  EXPECT_EQ(get("/soon"), "soon");
  EXPECT_EQ(get("/later"), "later");
}

TEST_F(HttpServerExamples, RequestsHaveParametersAndQueries) {
  // clang-format off
  // gyre/http/request.hpp
  server.get("/users/{id}", [](gyre::http::request& request) {
    auto page = request.query().get("page").value_or("1");
    return gyre::http::response::text(find_user(request.param("id"), page));
  });
  // clang-format on
  EXPECT_EQ(get("/users/7?page=2"), "user 7, page 2");
  EXPECT_EQ(get("/users/7"), "user 7, page 1");
}

gyre::http::response user(bool known) {
  // gyre/http/response.hpp
  if (!known) return gyre::http::response(gyre::http::status::not_found);
  return gyre::http::response::json(R"({"id":7})").set("Cache-Control", "no-store");
}

TEST_F(HttpServerExamples, ResponsesHaveFields) {
  EXPECT_EQ(user(true).fields().get("cache-control"), "no-store");
  EXPECT_EQ(user(false).status(), gyre::http::status::not_found);
}

TEST(HttpServerExample, GreetsByName) {
  gyre::runtime runtime({.loops = 1});
  const gyre::net::endpoint at = any_port();
  // gyre/http/server.hpp
  gyre::http::server server(runtime.loops(), at);  // an endpoint, or ":8080"
  server.get("/hello/{name}", [](gyre::http::request& request) {
    return gyre::http::response::text("Hello, " + request.param("name"));
  });
  server.start();
  gyre::loop here;
  EXPECT_EQ(gyre::sync_wait(here, ask(server.local_endpoint(), "/hello/a%20b")), "Hello, a b");
  gyre::sync_wait(server.stop_async(0s));
}

void print(std::string_view name, std::string_view value) {
  EXPECT_EQ(std::string(name) + "=" + std::string(value),
            name == "Vary" ? "Vary=Accept" : "Content-Type=text/plain");
}

TEST(HttpFieldsExample, SetsAndFinds) {
  // gyre/http/fields.hpp
  gyre::http::fields fields;
  fields.set("Content-Type", "text/plain").add("Vary", "Accept");
  auto type = fields.get("content-type");  // "text/plain"
  for (const auto& [name, value] : fields) print(name, value);
  EXPECT_EQ(type, "text/plain");
}

}  // namespace
}  // namespace http_server_test
