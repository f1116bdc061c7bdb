// SPDX-License-Identifier: Apache-2.0
// Guide to the HTTP client: requests of each kind, against a server in the same program.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/client.hpp>
#include <gyre/http/multipart_writer.hpp>
#include <gyre/http/proxy.hpp>
#include <gyre/http/server.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <cstddef>
#include <expected>
#include <iostream>
#include <span>
#include <string>
#include <system_error>
#include <utility>

using namespace std::chrono_literals;

gyre::task<std::string> page_of(std::string url) {
  auto answer = co_await gyre::http::get(url);  // such as "http://localhost:8080/"
  co_return answer.take_body();
}

gyre::task<> show_user(gyre::http::client& client, std::string url) {
  auto answer = co_await client.get(url);
  if (answer.status() == gyre::http::status::not_found) {
    std::cout << "no such user\n";
  } else {
    std::cout << answer.field("Content-Type").value_or("?") << ": " << answer.body() << '\n';
  }
}

gyre::task<bool> rename_user(gyre::http::client& client, std::string url, std::string name) {
  gyre::http::client_request request(gyre::http::method::put, url);
  request.set("If-Match", "\"1\"").set_body("text/plain", name);
  auto answer = co_await client.send(std::move(request));
  co_return answer.is_success();
}

gyre::task<std::size_t> download(gyre::http::client& client, std::string url) {
  gyre::http::client_request request(gyre::http::method::get, url);
  request.set_total_timeout(0s);  // however long it takes, while bytes come
  auto answer = co_await client.stream(std::move(request));
  std::size_t size = 0;
  while (auto chunk = co_await answer.next_chunk()) size += chunk->size();
  co_return size;
}

gyre::task<> write_numbers(gyre::http::request_body_writer& writer) {
  for (int number = 0; number != 1000; ++number) {
    std::string line = std::to_string(number) + '\n';
    co_await writer.write(line);
  }
}

gyre::task<std::string> upload(gyre::http::client& client, std::string url) {
  gyre::http::client_request request(gyre::http::method::post, url);
  request.set_stream("text/plain", write_numbers).expect_continue();
  auto answer = co_await client.send(std::move(request));
  co_return answer.take_body();
}

gyre::http::client_request form(std::string url, std::string photo) {
  gyre::http::multipart_writer parts;
  parts.add("title", "Holiday").add_file("photo", "beach.jpg", "image/jpeg", photo);
  gyre::http::client_request request(gyre::http::method::post, url);
  request.set_form(std::move(parts));
  return request;
}

gyre::task<> give_up_soon(gyre::http::client& client, std::string url) {
  gyre::http::client_request request(gyre::http::method::get, url);
  request.set_total_timeout(2s);
  try {
    auto answer = co_await client.send(std::move(request));
    std::cout << answer.body() << '\n';
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::timed_out) std::cout << "too slow\n";
    if (error.code() == std::errc::connection_refused) std::cout << "nobody is there\n";
  }
}

gyre::http::client_options careful() {
  gyre::http::client_options options;
  options.timeouts.first_byte = 5s;
  options.limits.body = 1 << 20;
  options.connections_per_host = 2;
  options.cookies = true;
  options.proxy = gyre::http::proxy_from_environment();
  return options;
}

gyre::http::client_options patient() {
  gyre::http::client_options options;
  options.http2.prior_knowledge = true;  // http URLs, too: their servers must speak HTTP/2
  options.http2.max_streams = 20;
  options.http2.ping_interval = 10s;
  return options;
}

gyre::http::client_options resilient() {
  gyre::http::client_options options;
  options.breaker = gyre::circuit_breaker_options{.failure_rate = 0.5, .open_time = 5s};
  options.hedging = gyre::http::hedging_options{.delay = 50ms};
  return options;
}

void show_later(gyre::http::client& client, std::string url) {
  using answer = std::expected<gyre::http::client_response, std::error_code>;
  gyre::http::client_request request(gyre::http::method::get, url);
  client.send(std::move(request), [](answer result) {
    std::cout << (result ? std::string(result->body()) : result.error().message()) << '\n';
  });
}

namespace {

using gyre::http::response;

gyre::task<response> size_of_body(gyre::http::request& request) {
  std::size_t size = 0;
  while (auto chunk = co_await request.next_chunk()) size += chunk->size();
  co_return response::text(std::to_string(size) + " bytes");
}

}  // namespace

int main() {
  gyre::loop loop;
  gyre::http::server server(loop, gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0));
  server.get("/users/7", [](gyre::http::request&) { return response::text("Ada"); });
  server.put("/users/7", [](gyre::http::request&) { return gyre::http::status::no_content; });
  server.post("/log", size_of_body, {.streamed_body = true});
  server.start();
  const std::string site = "http://" + server.local_endpoint().to_string();

  std::cout << gyre::sync_wait(loop, page_of(site + "/users/7")) << '\n';
  gyre::http::client client(loop);
  gyre::sync_wait(loop, show_user(client, site + "/users/7"));
  gyre::sync_wait(loop, show_user(client, site + "/users/8"));
  std::cout << gyre::sync_wait(loop, rename_user(client, site + "/users/7", "Grace")) << '\n';
  std::cout << gyre::sync_wait(loop, download(client, site + "/users/7")) << '\n';
  std::cout << gyre::sync_wait(loop, upload(client, site + "/log")) << '\n';
  std::cout << form(site + "/log", "bytes").body().contains("beach.jpg") << '\n';
  gyre::sync_wait(loop, give_up_soon(client, site + "/users/7"));
  gyre::http::client over_http2(loop, patient());
  gyre::sync_wait(loop, show_user(over_http2, site + "/users/7"));
  gyre::http::client third(loop, resilient());
  gyre::sync_wait(loop, show_user(third, site + "/users/7"));
  gyre::http::client other(loop, careful());
  show_later(other, site + "/users/7");
  while (other.metrics().idle == 0) loop.poll();
  loop.poll();
  return 0;
}
