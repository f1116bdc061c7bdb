// SPDX-License-Identifier: Apache-2.0
// Tests of what a server knows and records of its requests: clients behind proxies, ids, the access
// log, and the counts of routes.
#include <gyre/http/server.hpp>

#include <gyre/http/metrics_text.hpp>
#include <gyre/http/server_test_support.hpp>
#include <gyre/task/sleep.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http_server_records_test {
namespace {

using namespace gyre::http::test;
using namespace std::chrono_literals;
using gyre::task;
using gyre::http::access_record;
using gyre::http::body_writer;
using gyre::http::method;
using gyre::http::next_handler;
using gyre::http::request;
using gyre::http::response;
using gyre::http::server_options;
using gyre::http::status;
using gyre::http::upgraded_connection;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class HttpServerRecords : public server_fixture {
 protected:
  // Adds "status route bytes milliseconds" for each record, and "cut" at the end of one.
  void log_records() {
    on->on_access([this](const access_record& record) {
      records.push_back(std::to_string(to_number(record.status)) + ' ' + std::string(record.route) +
                        ' ' + std::to_string(record.body_bytes) + ' ' +
                        std::to_string(record.duration / 1ms) + (record.is_complete ? "" : " cut"));
    });
  }
  void tell_client() {
    on->get("/", [](request& request) {
      const auto address = request.client_address();
      return response::text((address ? address->to_string() : "nobody") + ' ' +
                            std::string(request.client_scheme()) + ' ' +
                            std::string(request.client_host()) + ' ' + std::string(request.host()));
    });
  }

  std::vector<std::string> records;
};

// --- Clients behind proxies ---

constexpr std::string_view three_fields =
    "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: example.org\r\n";

TEST_F(HttpServerRecords, AClientIsThePeerUnlessAProxyIsTrusted) {
  make();
  tell_client();
  on->start();
  EXPECT_THAT(answer_to(get("/", three_fields)), EndsWith("\r\n\r\n127.0.0.1 http a a"));
}

TEST_F(HttpServerRecords, ATrustedProxyNamesTheClient) {
  make({.forwarding = {.trusted = {"127.0.0.0/8"}}});
  tell_client();
  on->start();
  peer proxy = connect();
  proxy.send(get("/", three_fields) + get("/") + get("/", "X-Forwarded-For: 192.0.2.8\r\n"));
  EXPECT_THAT(next_response(proxy), EndsWith("\r\n\r\n192.0.2.7 https example.org a"));
  EXPECT_THAT(next_response(proxy), EndsWith("\r\n\r\n127.0.0.1 http a a"));
  EXPECT_THAT(next_response(proxy), EndsWith("\r\n\r\n192.0.2.8 http a a"));
}

TEST_F(HttpServerRecords, TheClientIsKnownAfterTheConnectionHasEnded) {
  make({.forwarding = {.trusted = {"127.0.0.0/8"}}});
  std::string known;
  on->get("/", [&](request& request) -> task<response> {
    try {
      co_await gyre::sleep_for(1h);
    } catch (const gyre::operation_cancelled&) {
      EXPECT_EQ(request.connection(), nullptr);
      known = request.client_address()->to_string() + std::string(request.client_scheme());
      throw;
    }
    co_return response();
  });
  on->start();
  peer client = connect();
  client.send(get("/", three_fields));
  virtual_time.turn_until([&] { return on->metrics().requests == 1; });
  client.reset();
  virtual_time.turn_until([&] { return on->metrics().active == 0; });
  EXPECT_EQ(known, "192.0.2.7https");
}

TEST_F(HttpServerRecords, TheCombinedLogNamesTheClientAndTheId) {
  make({.forwarding = {.trusted = {"127.0.0.1"}}, .request_ids = {.field = "X-Request-Id"}});
  std::string line;
  on->on_access([&](const access_record& record) { line = to_combined_log(record); });
  on->get("/", [](request&) { return response::text("hello"); });
  on->start();
  answer_to(get("/", "X-Forwarded-For: 192.0.2.7\r\nX-Request-Id: abc\r\n"));
  EXPECT_THAT(line, testing::StartsWith("192.0.2.7 - - ["));
  EXPECT_THAT(line, EndsWith("\"GET / HTTP/1.1\" 200 5 \"-\" \"-\" \"abc\""));
}

// --- Ids ---

std::string id_in(const std::string& answer) {
  const std::string name = "\r\nX-Request-Id: ";
  const std::size_t position = answer.find(name);
  if (position == answer.npos) return "none";
  const std::size_t begin = position + name.size();
  EXPECT_EQ(answer.find(name, begin), answer.npos);
  return answer.substr(begin, answer.find("\r\n", begin) - begin);
}

TEST_F(HttpServerRecords, RequestsHaveNoIdsByDefault) {
  make();
  on->get("/",
          [](request& request) { return response::text('<' + std::string(request.id()) + '>'); });
  on->start();
  EXPECT_THAT(answer_to(get("/", "X-Request-Id: a\r\n")), EndsWith("\r\n\r\n<>"));
}

TEST_F(HttpServerRecords, EachRequestGetsAnIdOfItsOwn) {
  make({.request_ids = {.field = "X-Request-Id"}});
  on->get("/", [](request& request) { return response::text(std::string(request.id())); });
  on->get("/none", [](request&) -> response { throw std::runtime_error("none"); });
  on->on_error([](const request&, const std::exception_ptr&) {});
  on->start();
  std::set<std::string> ids;
  peer client = connect();
  for (int i = 0; i < 100; ++i) {
    client.send(get("/", "X-Request-Id: sent\r\n"));  // by a client that is not trusted
    const std::string answer = next_response(client);
    const std::string id = id_in(answer);
    EXPECT_EQ(id.size(), 32u);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), id.npos) << id;
    EXPECT_THAT(answer, EndsWith(id));
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 100u);
  for (const std::string_view path : {"/none", "/unknown"}) {
    EXPECT_EQ(id_in(answer_to(get(path))).size(), 32u) << path;
  }
}

TEST_F(HttpServerRecords, TakesAValidIdFromATrustedProxy) {
  make({.forwarding = {.trusted = {"127.0.0.1"}},
        .request_ids = {.field = "X-Request-Id", .max_size = 9}});
  on->get("/", [](request& request) { return response::text(std::string(request.id())); });
  on->get("/own", [](request&) { return response::text("").set("x-request-id", "own"); });
  on->start();
  for (const std::string id : {"a", "A-z_0.~/+", "=:@"}) {
    const std::string answer = answer_to(get("/", "x-request-id: " + id + "\r\n"));
    EXPECT_EQ(id_in(answer), id);
    EXPECT_THAT(answer, EndsWith("\r\n\r\n" + id));
  }
  for (const std::string id : {"", "a b", "0123456789", "a,b", "<a>", "a\"", "\xc3\xa4", "a;b"}) {
    EXPECT_EQ(id_in(answer_to(get("/", "X-Request-Id: " + id + "\r\n"))).size(), 32u) << id;
  }
  EXPECT_THAT(answer_to(get("/own", "X-Request-Id: a\r\n")),
              testing::AllOf(HasSubstr("x-request-id: own\r\n"), Not(HasSubstr("X-Request-Id"))));
}

TEST_F(HttpServerRecords, MakesAnIdIfProxiesMustNot) {
  make({.forwarding = {.trusted = {"127.0.0.1"}},
        .request_ids = {.field = "X-Request-Id", .takes_from_proxies = false}});
  on->start();
  EXPECT_EQ(id_in(answer_to(get("/", "X-Request-Id: a\r\n"))).size(), 32u);
}

TEST_F(HttpServerRecords, RefusesAFieldForIdsThatIsNoToken) {
  EXPECT_THROW(make({.request_ids = {.field = "X Request"}}), std::invalid_argument);
  EXPECT_THROW(make({.request_ids = {.field = "X:\r\n"}}), std::invalid_argument);
}

// --- The access log ---

TEST_F(HttpServerRecords, CountsTheBytesOfAllKindsOfBodies) {
  make();
  log_records();
  on->get("/text/{name}", [](request&) { return response::text("hello"); });
  on->get("/chunks", [](request&) {
    return response::stream("text/plain", [](body_writer& writer) -> task<> {
      co_await writer.write("123");
      co_await gyre::sleep_for(20ms);
      co_await writer.write("4567");
    });
  });
  on->get("/length", [](request&) {
    return response::stream("text/plain", 4,
                            [](body_writer& writer) { return writer.write("1234"); });
  });
  on->get("/upgrade", [](request&) {
    return response::upgrade("echo", [](upgraded_connection& out) { return out.write("hello!"); });
  });
  on->start();
  peer client = connect();
  client.send(get("/text/a") + get("/chunks") + get("/length") + get("/unknown") +
              "HEAD /text/b HTTP/1.1\r\nHost: a\r\n\r\n" +
              get("/upgrade", "Connection: upgrade\r\nUpgrade: echo\r\n"));
  virtual_time.turn_until([&] { return records.size() == 1; });
  virtual_time.settle();
  virtual_time.advance(21ms);
  virtual_time.turn_until([&] { return records.size() == 6; });
  EXPECT_THAT(records,
              ElementsAre("200 /text/{name} 5 0", "200 /chunks 7 21", "200 /length 4 0",
                          "404 (no route) 31 0", "200 /text/{name} 0 0", "101 /upgrade 6 0"));
}

TEST_F(HttpServerRecords, CountsTheBytesOfAResponseToHttp10) {
  make();
  log_records();
  on->get("/", [](request&) {
    return response::stream("text/plain", [](body_writer& writer) { return writer.write("123"); });
  });
  on->start();
  peer client = connect();
  client.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(ends(client));
  EXPECT_THAT(records, ElementsAre("200 / 3 0"));
}

TEST_F(HttpServerRecords, RecordsAStreamThatItsClientHasLeft) {
  make({.counts_routes = true});
  log_records();
  on->get("/", [](request&) {
    return response::stream("text/plain", [](body_writer& writer) -> task<> {
      co_await writer.write("123");
      co_await gyre::sleep_for(1h);
    });
  });
  on->start();
  for (const bool resets : {false, true}) {
    peer client = connect();
    client.send(get("/"));
    virtual_time.turn_until([&] {
      client.receive();
      return client.text.contains("123");
    });
    virtual_time.advance(5ms);
    resets ? client.reset() : client.close();
    virtual_time.turn_until([&] { return on->metrics().active == 0; });
  }
  EXPECT_THAT(records, ElementsAre("200 / 3 5 cut", "200 / 3 5 cut"));
  EXPECT_EQ(on->route_metrics()[0].cut, 2u);
}

TEST_F(HttpServerRecords, RecordsAStreamThatHasFailed) {
  make();
  log_records();
  on->on_error([](const request&, const std::exception_ptr&) {});
  on->get("/", [](request&) {
    return response::stream("text/plain", [](body_writer& writer) -> task<> {
      co_await writer.write("12");
      throw std::runtime_error("no more");
    });
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  virtual_time.turn_until([&] { return !records.empty(); });
  EXPECT_THAT(records, ElementsAre("200 / 2 0 cut"));
}

TEST_F(HttpServerRecords, ARequestWhoseClientHasLeftBeforeTheResponseIsNotRecorded) {
  make();
  log_records();
  on->get("/", [](request&) -> task<response> {
    co_await gyre::sleep_for(1h);
    co_return response();
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  virtual_time.turn_until([&] { return on->metrics().requests == 1; });
  client.reset();
  virtual_time.turn_until([&] { return on->metrics().active == 0; });
  EXPECT_TRUE(records.empty());
}

// --- The counts of routes ---

TEST_F(HttpServerRecords, CountsEachRoute) {
  make({.counts_routes = true});
  on->get("/a", [](request&) { return response::text("hello"); });
  on->post("/a", [](request&) -> task<response> {
    co_await gyre::sleep_for(10ms);
    co_return status::bad_request;
  });
  on->get("/b", [](request&) { return response(); });
  EXPECT_TRUE(on->route_metrics().empty());
  on->start();
  answer_to(get("/a"));
  answer_to("HEAD /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  answer_to(get("/unknown"));
  answer_to("DELETE /a HTTP/1.1\r\nHost: a\r\n\r\n");
  peer client = connect();
  client.send(post("/a", "x"));
  virtual_time.turn_until([&] { return on->metrics().active == 1; });
  virtual_time.settle();
  virtual_time.advance(11ms);
  next_response(client);

  const auto routes = on->route_metrics();
  ASSERT_EQ(routes.size(), 4u);
  EXPECT_EQ(routes[0].method, "GET");
  EXPECT_EQ(routes[0].pattern, "/a");
  EXPECT_THAT(routes[0].responses, ElementsAre(0, 0, 2, 0, 0, 0));
  EXPECT_EQ(routes[0].body_bytes, 5u);
  EXPECT_EQ(routes[1].method, "POST");
  EXPECT_THAT(routes[1].responses, ElementsAre(0, 0, 0, 0, 1, 0));
  EXPECT_EQ(routes[1].durations.max(), 11ms);
  EXPECT_EQ(routes[2].durations.count(), 0u);
  EXPECT_EQ(routes[3].pattern, "(no route)");
  EXPECT_THAT(routes[3].responses, ElementsAre(0, 0, 0, 0, 2, 0));

  gyre::http::metrics_text text;
  gyre::http::add_route_metrics(text, routes, "shop");
  EXPECT_THAT(
      text.text(),
      testing::AllOf(
          HasSubstr("shop_responses_total{method=\"GET\",route=\"/a\",code=\"2xx\"} 2\n"),
          HasSubstr("shop_responses_total{method=\"any\",route=\"(no route)\",code=\"4xx\"} 2\n"),
          HasSubstr("shop_response_bytes_total{method=\"GET\",route=\"/a\"} 5\n"),
          HasSubstr("shop_response_seconds_bucket{method=\"POST\",route=\"/a\",le=\"0.025\"} 1\n"),
          HasSubstr("shop_response_seconds_bucket{method=\"POST\",route=\"/a\",le=\"0.01\"} 0\n"),
          HasSubstr("shop_response_seconds_count{method=\"POST\",route=\"/a\"} 1\n"),
          Not(HasSubstr("/b"))));
}

TEST_F(HttpServerRecords, CountsNoRoutesByDefault) {
  make();
  on->get("/", [](request&) { return response(); });
  on->start();
  answer_to(get("/"));
  EXPECT_TRUE(on->route_metrics().empty());
}

}  // namespace
}  // namespace http_server_records_test
