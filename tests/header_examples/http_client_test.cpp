// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of the headers of the HTTP client.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/client.hpp>
#include <gyre/http/proxy.hpp>
#include <gyre/http/server.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace http_client_examples_test {
namespace {

std::string printed;

void print(gyre::http::status status, std::string_view body) {
  printed = std::to_string(gyre::http::to_number(status)).append(" ").append(body);
}
void print(std::string_view type, std::string_view body) {
  printed = std::string(type).append(" ").append(body);
}
void report(gyre::http::status) { printed = "refused"; }

class HttpClientExamples : public testing::Test {
 protected:
  HttpClientExamples() {
    server.get("/users/7", [](gyre::http::request&) { return gyre::http::response::text("Ada"); });
    server.put("/users/7", [](gyre::http::request& request) {
      return gyre::http::response::text(std::string(request.body()));
    });
    server.start();
  }

  gyre::loop loop;
  gyre::http::server server{loop, gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0)};
  std::string url = "http://" + server.local_endpoint().to_string() + "/users/7";
};

// gyre/http/client.hpp
gyre::task<> get_once(gyre::event_loop& loop, std::string url) {
  gyre::http::client client(loop);
  auto answer = co_await client.get(url);  // such as "http://localhost:8080/users/7"
  print(answer.status(), answer.body());
}

TEST_F(HttpClientExamples, ClientGets) {
  gyre::sync_wait(loop, get_once(loop, url));
  EXPECT_EQ(printed, "200 Ada");
}

TEST_F(HttpClientExamples, ClientsLimitConnectionsOfHttp2) {
  using namespace std::chrono_literals;
  // gyre/http/http2_client_options.hpp
  gyre::http::client_options options;
  options.http2.max_streams = 32;
  options.http2.ping_interval = 15s;
  const gyre::http::client client(loop, options);
  EXPECT_EQ(client.metrics().requests, 0U);
}

// gyre/http/client_request.hpp
gyre::task<std::string> put(gyre::http::client& client, std::string url, std::string tag) {
  gyre::http::client_request request(gyre::http::method::put, url);  // "http://…"
  request.set("If-Match", tag).set_body("application/json", R"({"name":"Ada"})");
  auto answer = co_await client.send(std::move(request));
  co_return answer.take_body();
}

TEST_F(HttpClientExamples, RequestIsSent) {
  gyre::http::client client(loop);
  EXPECT_EQ(gyre::sync_wait(loop, put(client, url, "\"1\"")), R"({"name":"Ada"})");
}

// gyre/http/client_response.hpp
gyre::task<> read(gyre::http::client& client, std::string url) {
  auto answer = co_await client.get(url);
  if (!answer.is_success()) co_return report(answer.status());
  print(answer.field("Content-Type").value_or("?"), answer.body());
}

TEST_F(HttpClientExamples, ResponseIsRead) {
  gyre::http::client client(loop);
  gyre::sync_wait(loop, read(client, url));
  EXPECT_EQ(printed, "text/plain; charset=utf-8 Ada");
  gyre::sync_wait(loop, read(client, url + "/none"));
  EXPECT_EQ(printed, "refused");
}

// gyre/http/proxy.hpp
TEST_F(HttpClientExamples, ProxiesComeFromTheEnvironment) {
  gyre::http::client_options options;
  options.proxy = gyre::http::proxy_from_environment();
  gyre::http::client client(loop, options);
  EXPECT_EQ(client.metrics().open, 0u);
}

}  // namespace
}  // namespace http_client_examples_test
