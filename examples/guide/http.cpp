// SPDX-License-Identifier: Apache-2.0
// Guide to HTTP: a server with handlers of all kinds, and a client that shows their answers.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/access_log_writer.hpp>
#include <gyre/http/concurrency_limit.hpp>
#include <gyre/http/metrics_text.hpp>
#include <gyre/http/rate_limit.hpp>
#include <gyre/http/server.hpp>
#include <gyre/io/blocking_pool.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/task.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

using namespace std::chrono_literals;

void add_hello(gyre::http::server& server) {
  server.get("/hello/{name}", [](gyre::http::request& request) {
    return gyre::http::response::text("Hello, " + request.param("name"));
  });
}

gyre::task<std::uint64_t> count_primes(std::uint64_t limit) {
  std::uint64_t count = 0;
  for (std::uint64_t number = 2; number < limit; ++number) {
    std::uint64_t divisor = 2;
    while (divisor * divisor <= number && number % divisor != 0) ++divisor;
    if (divisor * divisor > number) ++count;
  }
  co_return count;
}

void add_coroutine(gyre::http::server& server) {
  server.get("/primes", [](gyre::http::request& request) -> gyre::task<gyre::http::response> {
    const std::string limit = request.query().get("below").value_or("100");
    if (limit.size() > 6 || limit.find_first_not_of("0123456789") != limit.npos) {
      throw gyre::http::http_error(gyre::http::status::bad_request);
    }
    auto counting = gyre::on(gyre::io::blocking_pool(), count_primes(std::stoull('0' + limit)));
    const std::uint64_t count = co_await std::move(counting);
    co_return gyre::http::response::text(std::to_string(count));
  });
}

void add_callback(gyre::http::server& server, std::jthread& worker) {
  server.get("/later", [&](gyre::http::request&, gyre::http::responder answer) {
    worker = std::jthread([answer = std::move(answer)] {
      answer.send(gyre::http::response::text("from another thread"));
    });
  });
}

void add_form(gyre::http::server& server) {
  server.post("/sign", [](gyre::http::request& request) {
    const auto form = gyre::http::query::parse(request.body());
    if (!form) return gyre::http::response(gyre::http::status::bad_request);
    return gyre::http::response::text("signed by " + form->get("name").value_or("nobody"));
  });
}

void add_upload(gyre::http::server& server) {
  const auto count_bytes = [](gyre::http::request& request) -> gyre::task<gyre::http::response> {
    std::size_t size = 0;
    while (auto chunk = co_await request.next_chunk()) size += chunk->size();
    co_return gyre::http::response::text(std::to_string(size) + " bytes");
  };
  server.put("/upload", count_bytes, {.streamed_body = true});
}

gyre::task<> write_numbers(gyre::http::body_writer& out) {
  for (int number = 1; number <= 3; ++number) {
    co_await out.write(std::to_string(number) + '\n');  // waits while the client does not read
  }
}

void add_stream(gyre::http::server& server) {
  server.get("/numbers", [](gyre::http::request&) {
    return gyre::http::response::stream("text/plain", write_numbers);
  });
  server.get("/numbers.txt", [](gyre::http::request&) {
    return gyre::http::response::stream("text/plain", 6, write_numbers);  // 3 lines of 2 bytes
  });
}

gyre::task<> echo(gyre::http::upgraded_connection& client) {
  while (auto bytes = co_await client.next()) co_await client.write(*bytes);
}

void add_upgrade(gyre::http::server& server) {
  server.get("/echo",
             [](gyre::http::request&) { return gyre::http::response::upgrade("echo", echo); });
}

gyre::task<gyre::http::response> require_token(gyre::http::request& request,
                                               gyre::http::next_handler next) {
  if (request.path().starts_with("/admin/") && request.field("Authorization") != "Bearer secret") {
    co_return gyre::http::response(gyre::http::status::unauthorized)
        .set("WWW-Authenticate", "Bearer");
  }
  auto answering = next(request);
  gyre::http::response answer = co_await std::move(answering);
  answer.set("X-Frame-Options", "DENY");
  co_return answer;
}

void add_news(gyre::http::server& server, gyre::manual_reset_event& news) {
  server.get("/news", [&](gyre::http::request& request) -> gyre::task<gyre::http::response> {
    auto waiting = gyre::as_expected(gyre::stop_when(news.wait(), request.server_stop_token()));
    const auto came = co_await std::move(waiting);
    if (!came) co_return gyre::http::status::service_unavailable;  // the server stops
    co_return gyre::http::response::text("news");
  });
}

void add_middleware(gyre::http::server& server) {
  server.use(require_token);
  server.get("/admin/users",
             [](gyre::http::request&) { return gyre::http::response::json(R"(["Ada"])"); });
}

gyre::http::access_log_writer add_log(gyre::http::server& server, std::string& log) {
  gyre::http::access_log_writer writer(gyre::io::blocking_pool(), [&](std::string_view lines) {
    log += lines;  // never called twice at the same time
  });
  server.on_access(writer);
  return writer;
}

gyre::http::server_options make_options() {
  return {.limits = {.body = 64 << 10},
          .forwarding = {.trusted = {"10.0.0.0/8", "2001:db8::/32"}},
          .request_ids = {.field = "X-Request-Id"},
          .counts_routes = true};
}

void add_limits(gyre::http::server& server) {
  const gyre::http::rate_limit rate({.tokens = 50, .per = 1s, .burst = 100});
  const gyre::http::concurrency_limit concurrency(
      {.max_running = 100, .max_wait = 500ms, .exempts = [](const gyre::http::request& request) {
         return request.path() == "/health";
       }});
  server.use(rate);
  server.use(concurrency);
}

void add_metrics(gyre::http::server& server) {
  server.get("/metrics", [&](gyre::http::request&) {
    gyre::http::metrics_text text;
    gyre::http::add_route_metrics(text, server.route_metrics());
    return text.response();
  });
}

// --- The client ---

gyre::task<std::string> ask(gyre::net::endpoint server, std::string request) {
  gyre::net::tcp_stream stream = co_await gyre::net::connect(server);
  co_await stream.write_all(request);
  // To end its side before the answer would mean to leave.
  if (request.contains("Upgrade: ")) stream.shutdown(gyre::net::shutdown_side::send);
  std::string answer;
  std::string room(4096, '\0');
  for (;;) {
    const std::size_t count = co_await stream.read_some(std::as_writable_bytes(std::span(room)));
    if (count == 0) break;
    answer += room.substr(0, count);
  }
  const std::size_t head = answer.find("\r\n\r\n");
  co_return answer.substr(9, 3) + ' ' + answer.substr(head == answer.npos ? 0 : head + 4);
}

std::string request(std::string_view line, std::string_view fields, std::string_view body = "") {
  std::string text = std::string(line) + " HTTP/1.1\r\nHost: here\r\n";
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + std::string(fields) + "\r\n" + std::string(body);
}

gyre::task<> show_answers(gyre::http::server& server) {
  constexpr std::string_view close = "Connection: close\r\n";
  const std::array requests{
      request("GET /hello/Ada", close),
      request("GET /primes?below=1000", close),
      request("GET /later", close),
      request("POST /sign", close, "name=Grace+Hopper"),
      request("PUT /upload", close, std::string(100'000, 'x')),
      request("GET /numbers", close),
      request("GET /numbers.txt", close),
      request("GET /echo", "Connection: upgrade\r\nUpgrade: echo\r\n") + "again",
      request("GET /news", close),
      request("GET /admin/users", close),
      request("GET /nothing", close),
  };
  for (const std::string& each : requests) {
    std::cout << co_await ask(server.local_endpoint(), each) << '\n';
  }
}

int main() {
  gyre::loop loop;
  gyre::http::server server(loop, "127.0.0.1:0", make_options());
  std::jthread worker;
  std::string log;
  gyre::manual_reset_event news;
  news.set();
  add_hello(server);
  add_coroutine(server);
  add_callback(server, worker);
  add_form(server);
  add_upload(server);
  add_stream(server);
  add_upgrade(server);
  add_news(server, news);
  add_limits(server);
  add_middleware(server);
  add_metrics(server);
  const gyre::http::access_log_writer writer = add_log(server, log);
  server.start();
  gyre::sync_wait(loop, show_answers(server));

  const gyre::http::server_metrics counts = server.metrics();
  std::cout << counts.requests << " requests, " << counts.client_errors << " refused\n";
  gyre::sync_wait(loop, server.stop_async(5s));
  writer.flush();
}
