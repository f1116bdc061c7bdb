// SPDX-License-Identifier: Apache-2.0
// The addresses for operators: metrics_handler() and inspector; and traces over several programs.
#include <gyre/http/inspector.hpp>

#include <gyre/base/log_level.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/client.hpp>
#include <gyre/http/metrics_handler.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/trace_propagation.hpp>
#include <gyre/metrics/registry.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/net/unix_stream.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/live_tasks.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace inspector_test {
namespace {

using namespace std::chrono_literals;
namespace http = gyre::http;
namespace metrics = gyre::metrics;
using gyre::task;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

gyre::net::endpoint any_port() { return {gyre::net::ip_address::loopback_v4(), 0}; }

/// A server with one connection, on which it has received "hello".
class greeted_server {
 public:
  greeted_server() {
    server.on_message([this](gyre::net::tcp_connection&, gyre::io::input& input) {
      input.consume_all();
      received_.count_down();
    });
    server.start();
    client_.emplace(gyre::sync_wait(loop_, greet()));
    received_.wait();
  }
  gyre::net::endpoint client() const { return client_->local_endpoint(); }

 private:
  task<gyre::net::tcp_stream> greet() {
    auto connecting = gyre::net::connect(server.local_endpoint());
    gyre::net::tcp_stream stream = co_await std::move(connecting);
    auto writing = stream.write_all("hello");
    co_await std::move(writing);
    co_return stream;
  }

  std::latch received_{1};
  gyre::loop_thread thread_;
  gyre::loop loop_;

 public:
  gyre::net::tcp_server server{thread_, any_port()};

 private:
  std::optional<gyre::net::tcp_stream> client_;
};

// Sends a request on a connection of its own, and returns the whole response.
template <class Stream>
task<std::string> ask_for(task<Stream> connecting, std::string request) {
  Stream peer = co_await std::move(connecting);
  auto writing = peer.write_all(request);
  co_await std::move(writing);
  std::string all;
  for (;;) {
    auto bytes = co_await peer.receive();
    if (bytes.empty()) break;
    all += bytes.text();
  }
  co_return all;
}
task<std::string> ask_for(const gyre::net::endpoint& server, std::string request) {
  if (server.is_unix()) {
    return ask_for(gyre::as_task(gyre::net::connect_unix(server)), std::move(request));
  }
  return ask_for(gyre::as_task(gyre::net::connect(server)), std::move(request));
}
task<std::string> ask(const gyre::net::endpoint& server, const std::string& path,
                      const std::string& fields) {
  return ask_for(server, "GET " + path + " HTTP/1.1\r\nConnection: close\r\n" + fields + "\r\n");
}
std::string get(const gyre::net::endpoint& server, std::string path,
                std::string fields = "Host: localhost\r\n") {
  gyre::loop loop;
  return gyre::sync_wait(loop, ask(server, std::move(path), std::move(fields)));
}

class HttpInspector : public testing::Test {
 protected:
  gyre::net::endpoint begin(http::inspector_options options = {}) {
    inspector.emplace(all, any_port(), options);
    inspector->start();
    return inspector->local_endpoint();
  }

  metrics::registry all;
  std::optional<http::inspector> inspector;
};

TEST_F(HttpInspector, ServesTheMetricsInTwoFormats) {
  all.make_counter("orders_total", "Orders.").add(3);
  const gyre::net::endpoint address = begin();
  const std::string text = get(address, "/metrics");
  EXPECT_THAT(text, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(text, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE orders_total counter\norders_total 3\n"));
  const std::string open =
      get(address, "/metrics",
          "Host: localhost\r\nAccept: application/openmetrics-text;version=1.0.0\r\n");
  EXPECT_THAT(open, HasSubstr("Content-Type: application/openmetrics-text; version=1.0.0"));
  EXPECT_THAT(open, HasSubstr("# TYPE orders counter\norders_total 3\n"));
  EXPECT_THAT(open, EndsWith("# EOF\n"));
  EXPECT_THAT(get(address, "/"), EndsWith("/metrics\n/tasks\n/connections\n/trace\n/log-level\n"));
}

TEST_F(HttpInspector, ChangesNothingAndServesNoOtherHost) {
  const gyre::net::endpoint address = begin();
  EXPECT_THAT(get(address, "/metrics", "Host: evil.example\r\n"), StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(get(address, "/metrics", "Host: 127.0.0.1:99\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(get(address, "/none"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(get(address, "/metrics", "Host: localhost\r\nContent-Length: 1\r\n"),
              StartsWith("HTTP/1.1 413 "));
}

TEST_F(HttpInspector, RefusesAddressesThatOtherMachinesReach) {
  EXPECT_THROW(http::inspector(all, "0.0.0.0:0"), std::invalid_argument);
  EXPECT_THROW(http::inspector(all, ":0"), std::invalid_argument);
  EXPECT_THROW(http::inspector(all, "127.0.0.1:0", {.max_entries = 0}), std::invalid_argument);
}

// Abstract sockets have no mode, so that every user could connect.
TEST_F(HttpInspector, RefusesUnixSocketsWithoutAPath) {
  EXPECT_THROW(http::inspector(all, "unix:@gyre-inspector-test"), std::invalid_argument);
  EXPECT_THROW(http::inspector(all, "unix:"), std::invalid_argument);
}

TEST_F(HttpInspector, ServesTheHostOfItsOwnAddress) {
  inspector.emplace(all, "127.0.0.5:0");
  inspector->start();
  const gyre::net::endpoint address = inspector->local_endpoint();
  EXPECT_THAT(get(address, "/metrics", "Host: " + address.to_string() + "\r\n"),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(get(address, "/metrics", "Host: 127.0.0.6\r\n"), StartsWith("HTTP/1.1 421 "));

  inspector.emplace(all, "[::ffff:127.0.0.1]:0");
  inspector->start();
  EXPECT_THAT(get(inspector->local_endpoint(), "/metrics", "Host: [::ffff:127.0.0.1]\r\n"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpInspector, AUnixSocketIsForItsUserOnly) {
  const gyre::test::temporary_folder folder;
  const std::string path = folder / "inspect";
  inspector.emplace(all, gyre::net::endpoint::unix_path(path));
  struct ::stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  inspector->start();
  EXPECT_THAT(get(inspector->local_endpoint(), "/metrics", "Host: any\r\n"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpInspector, ShowsTasks) {
  const gyre::net::endpoint address = begin({.records_tasks = true});
  gyre::loop loop;
  gyre::manual_reset_event end;
  const auto wait = [](gyre::manual_reset_event& event) -> task<> { co_await event.wait(); };
  gyre::spawn(loop, wait(end), {.name = "a \"patient\" task"});
  loop.poll();
  EXPECT_THAT(get(address, "/tasks"),
              HasSubstr("\"a \\\"patient\\\" task\" from " + std::string(__FILE__)));
  const std::string json =
      get(address, "/tasks", "Host: localhost\r\nAccept: application/json\r\n");
  EXPECT_THAT(json, AllOf(HasSubstr("Content-Type: application/json"),
                          HasSubstr("{\"recorded\":true,\"tasks\":[{"),
                          HasSubstr("\"name\":\"a \\\"patient\\\" task\",\"file\":\""),
                          HasSubstr("\"has_begun\":true}")));
  EXPECT_THAT(get(address, "/tasks?format=json&limit=0"),
              HasSubstr("{\"recorded\":true,\"tasks\":[]}\n"));
  EXPECT_THAT(get(address, "/tasks?format=xml"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(get(address, "/tasks?limit=-1"), StartsWith("HTTP/1.1 400 "));
  end.set();
  loop.poll();
  gyre::record_live_tasks(false);
  EXPECT_THAT(get(address, "/tasks"), HasSubstr("live tasks are not recorded"));
}

TEST_F(HttpInspector, EscapesNames) {
  const gyre::net::endpoint address = begin({.records_tasks = true});
  gyre::loop loop;
  gyre::manual_reset_event end;
  const auto wait = [](gyre::manual_reset_event& event) -> task<> { co_await event.wait(); };
  gyre::spawn(loop, wait(end), {.name = "a\n\\\x1b\xc2\x9b\xff\xc3\xa4"});
  loop.poll();
  EXPECT_THAT(get(address, "/tasks"), HasSubstr(R"("a\n\\\x1b\xc2\x9b\xff)"
                                                "\xc3\xa4\" from "));
  EXPECT_THAT(get(address, "/tasks?format=json"),
              HasSubstr("\"name\":\"a\\u000a\\\\\\u001b\xc2\x9b\xef\xbf\xbd\xc3\xa4\","));
  end.set();
  loop.poll();
  gyre::record_live_tasks(false);

  greeted_server greeted;
  const auto shown = inspector->show_connections("a\nshop\xff", greeted.server);
  EXPECT_THAT(get(address, "/connections"), HasSubstr(R"(a\nshop\xff #1 peer )"));
  EXPECT_THAT(get(address, "/connections?format=json"),
              HasSubstr("{\"server\":\"a\\u000ashop\xef\xbf\xbd\",\"id\":1,"));
}

TEST_F(HttpInspector, ShowsConnections) {
  const gyre::net::endpoint address = begin();
  greeted_server greeted;
  auto shown = inspector->show_connections("shop", greeted.server);
  const std::string text = get(address, "/connections");
  EXPECT_THAT(text, HasSubstr("shop #1 peer " + greeted.client().to_string() +
                              ", received 5 bytes, sent 0 bytes, 0 wait\n"));
  EXPECT_THAT(text, Not(HasSubstr("not all")));
  EXPECT_THAT(
      get(address, "/connections?format=json"),
      HasSubstr("{\"complete\":true,\"connections\":[{\"server\":\"shop\",\"id\":1,\"peer\":"));
  EXPECT_THAT(get(address, "/connections?format=json&limit=0"),
              HasSubstr("{\"complete\":false,\"connections\":[]}\n"));
  shown.reset();
  EXPECT_THAT(get(address, "/connections?format=json"),
              HasSubstr("{\"complete\":true,\"connections\":[]}\n"));
}

TEST_F(HttpInspector, ShowsTheFlightRecorder) {
  const gyre::net::endpoint address = begin();
  EXPECT_THAT(get(address, "/trace?seconds=5"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(get(address, "/trace?format=json"), HasSubstr("\"traceEvents\""));
  EXPECT_THAT(get(address, "/trace?seconds=x"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpInspector, ShowsAndSetsTheLogLevel) {
  const gyre::net::endpoint address = begin();
  const auto put = [&](const std::string& level, const std::string& host = "localhost") {
    gyre::loop loop;
    return gyre::sync_wait(
        loop, ask_for(address, "PUT /log-level HTTP/1.1\r\nConnection: close\r\nHost: " + host +
                                   "\r\nContent-Length: " + std::to_string(level.size()) +
                                   "\r\n\r\n" + level));
  };
  EXPECT_THAT(get(address, "/log-level"), EndsWith("\r\n\r\ninfo\n"));
  EXPECT_THAT(put("error\n"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nerror\n")));
  EXPECT_EQ(gyre::current_log_level(), gyre::log_level::error);
  EXPECT_THAT(get(address, "/log-level"), EndsWith("\r\n\r\nerror\n"));
  EXPECT_THAT(put("loud"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(put(""), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(put(std::string(17, '\n')), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(put("info", "evil.example.org"), StartsWith("HTTP/1.1 421 "));
  EXPECT_EQ(gyre::current_log_level(), gyre::log_level::error);
  EXPECT_THAT(put("info"), EndsWith("\r\n\r\ninfo\n"));
  EXPECT_EQ(gyre::current_log_level(), gyre::log_level::info);
}

TEST_F(HttpInspector, RespondsWhileALoopIsHeld) {
  const gyre::net::endpoint address = begin({.limit = 20ms});
  std::latch held(1), released(1);  // the thread may use them until it is joined
  gyre::loop_thread thread;
  gyre::net::tcp_server server(thread, any_port());
  server.start();
  thread.loop().post([&] {
    held.count_down();
    released.wait();
  });
  held.wait();
  const auto shown = inspector->show_connections("shop", server);
  const auto counted = all.add("network", thread.loop());
  EXPECT_THAT(get(address, "/connections"), EndsWith("\r\n\r\nnot all connections are shown\n"));
  EXPECT_THAT(get(address, "/metrics"), HasSubstr("gyre_executor_up{name=\"network\"} 0\n"));
  released.count_down();
}

TEST_F(HttpInspector, MayHavePagesOfItsOwn) {
  inspector.emplace(all, any_port());
  inspector->get("/version", [](http::request&) { return http::response::text("7"); });
  EXPECT_THROW(inspector->get("/version", [](http::request&) { return http::response(); }),
               std::invalid_argument);
  inspector->start();
  EXPECT_THROW(inspector->start(), std::logic_error);
  EXPECT_THROW(inspector->get("/late", [](http::request&) { return http::response(); }),
               std::logic_error);
  EXPECT_THAT(get(inspector->local_endpoint(), "/version"), EndsWith("\r\n\r\n7"));
  EXPECT_THAT(get(inspector->local_endpoint(), "/"), EndsWith("/trace\n/log-level\n/version\n"));
}

TEST_F(HttpInspector, NeedsNoStart) { inspector.emplace(all, any_port()); }

TEST(HttpMetricsHandler, ChoosesTheFormatByAccept) {
  using gyre::http::choose_exposition_format;
  using gyre::metrics::exposition_format;
  for (const std::string_view accept : {
           "application/openmetrics-text",
           "application/openmetrics-text; version=1.0.0; charset=utf-8",
           "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
           "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
           "text/plain;q=0.3, Application/OpenMetrics-Text;q=0.3",
       }) {
    EXPECT_EQ(choose_exposition_format(accept), exposition_format::open_metrics) << accept;
  }
  for (const std::string_view accept : {
           "",
           "*/*",
           "text/plain",
           "text/plain, application/openmetrics-text;q=0.9",
           "application/openmetrics-text;q=0",
           "application/openmetrics-text;q=x",
           "application/openmetrics-text;version=0.0.1;q=0.75,text/plain;q=0.5",
           "application/openmetrics-text;version=2.0.0",
           ",;=,;;",
           "application/openmetrics-tex",
       }) {
    EXPECT_EQ(choose_exposition_format(accept), exposition_format::text) << accept;
  }
}

TEST(HttpMetricsHandler, ServesAServerAndItsRoutes) {
  metrics::registry all;
  gyre::loop loop;
  http::server server(loop, any_port(), {.counts_routes = true});
  server.get("/hello", [](http::request&) { return http::response::text("hello"); });
  server.get("/metrics", http::metrics_handler(all));
  server.start();
  const auto counted = all.add("shop", server);
  const auto fetch = [&](std::string path) {
    return gyre::sync_wait(loop, ask(server.local_endpoint(), std::move(path), "Host: a\r\n"));
  };
  EXPECT_THAT(fetch("/hello"), EndsWith("hello"));
  const std::string text = fetch("/metrics");
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("gyre_http_server_requests_total{name=\"shop\"} 2\n"),
            HasSubstr("gyre_http_server_responses_total{name=\"shop\",code=\"2xx\"} 1\n"),
            HasSubstr("gyre_tcp_server_accepted_total{name=\"shop\"} 2\n"),
            HasSubstr("gyre_http_route_response_seconds_count{name=\"shop\",method=\"GET\",route="
                      "\"/hello\"} 1\n")));
  auto stopping = server.stop_async();
  gyre::sync_wait(loop, [&]() -> task<> { co_await std::move(stopping); }());
}

// --- Traces ---

class HttpTraces : public testing::Test {
 protected:
  HttpTraces() {
    backend.get("/", [this](http::request& request) {
      seen.push_back(std::string(request.field("traceparent").value_or("none")));
      states.push_back(std::string(request.field("tracestate").value_or("none")));
      return http::response::text("ok");
    });
    backend.start();
  }
  ~HttpTraces() override {
    const auto stop = [](http::server& server) -> task<> {
      auto stopping = server.stop_async(0s);
      co_await std::move(stopping);
    };
    gyre::sync_wait(loop, stop(backend));
  }
  std::string backend_url() const { return "http://" + backend.local_endpoint().to_string() + "/"; }

  gyre::loop loop;
  http::server backend{loop, any_port()};
  std::vector<std::string> seen;
  std::vector<std::string> states;
};

TEST_F(HttpTraces, AHandlersRequestsCarryItsTrace) {
  http::client client(loop, {.sends_trace = true});
  http::server front(loop, any_port());
  front.use(http::trace_propagation());
  front.get("/", [&](http::request&) -> task<http::response> {
    auto both = gyre::when_all(client.get(backend_url()), client.get(backend_url()));
    co_await std::move(both);
    co_return http::response::text("done");
  });
  front.get("/own", [&](http::request&) -> task<http::response> {
    http::client_request request(http::method::get, backend_url());
    request.set("traceparent", "mine");
    auto sending = client.send(std::move(request));
    co_await std::move(sending);
    co_return http::response::text("done");
  });
  front.start();
  const auto call = [&](std::string path, std::string fields) {
    const std::string answer =
        gyre::sync_wait(loop, ask(front.local_endpoint(), std::move(path), "Host: a\r\n" + fields));
    EXPECT_THAT(answer, EndsWith("done"));
  };
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  call("/", "traceparent: 00-" + trace +
                "-00f067aa0ba902b7-01\r\ntracestate: a=1\r\nTracestate: b=2\r\n");
  ASSERT_EQ(seen.size(), 2u);
  for (const std::string& each : seen) {
    const auto parsed = http::trace_parent::parse(each);
    ASSERT_TRUE(parsed) << each;
    EXPECT_EQ(parsed->trace_id(), trace);
    EXPECT_NE(parsed->parent_id(), "00f067aa0ba902b7");
    EXPECT_TRUE(parsed->is_sampled());
  }
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_EQ(states, (std::vector<std::string>{"a=1,b=2", "a=1,b=2"}));

  for (const std::string fields :
       {"", "traceparent: 00-0-0-0\r\ntracestate: a=1\r\n",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n"
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n"}) {
    seen.clear();
    states.clear();
    call("/", fields);
    ASSERT_EQ(seen.size(), 2u);
    const auto parsed = http::trace_parent::parse(seen[0]);
    ASSERT_TRUE(parsed) << seen[0];
    EXPECT_NE(parsed->trace_id(), trace) << "a new trace begins";
    EXPECT_FALSE(parsed->is_sampled());
    EXPECT_EQ(http::trace_parent::parse(seen[1])->trace_id(), parsed->trace_id());
    EXPECT_EQ(states[0], "none");
  }
  seen.clear();
  call("/own", "");
  EXPECT_EQ(seen, std::vector<std::string>{"mine"});
  const auto stop = [](http::server& server) -> task<> {
    auto stopping = server.stop_async(0s);
    co_await std::move(stopping);
  };
  gyre::sync_wait(loop, stop(front));
}

TEST_F(HttpTraces, NothingIsSentWithoutATraceOrWithoutTheOption) {
  http::client client(loop, {.sends_trace = true}), silent(loop);
  gyre::sync_wait(loop, client.get(backend_url()));
  const auto within_trace = [&]() -> task<> {
    auto sending = silent.get(backend_url());
    auto bound =
        http::task_trace.with(http::current_trace{http::trace_parent::make()}, std::move(sending));
    co_await std::move(bound);
  };
  gyre::sync_wait(loop, within_trace());
  EXPECT_EQ(seen, (std::vector<std::string>{"none", "none"}));
}

TEST_F(HttpTraces, HedgedRequestsCarryTheTrace) {
  http::client client(loop, {.hedging = http::hedging_options{}, .sends_trace = true});
  const http::trace_parent trace = http::trace_parent::make(true);
  const auto within_trace = [&]() -> task<> {
    auto sending = client.get(backend_url());
    auto bound = http::task_trace.with(http::current_trace{trace}, std::move(sending));
    co_await std::move(bound);
  };
  gyre::sync_wait(loop, within_trace());
  ASSERT_EQ(seen.size(), 1u);
  const auto parsed = http::trace_parent::parse(seen[0]);
  ASSERT_TRUE(parsed) << seen[0];
  EXPECT_EQ(parsed->trace_id(), trace.trace_id());
}

}  // namespace
}  // namespace inspector_test
