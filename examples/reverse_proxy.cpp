// SPDX-License-Identifier: Apache-2.0
// Forwards requests in turn to those of its backends that are healthy. Each second it asks each
// backend for /health; one that does not answer 2xx within a second gets no requests until it does.
//
//     reverse_proxy ADDRESS:PORT BACKEND…     (http://127.0.0.1:8081 …)
#include <gyre/http/client.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using gyre::http::request;
using gyre::http::response;

struct backend {
  std::string url;
  bool healthy = false;
};

bool equals_ignoring_case(std::string_view left, std::string_view right) {
  const auto lower = [](char each) { return each >= 'A' && each <= 'Z' ? each + 32 : each; };
  return std::ranges::equal(left, right, {}, lower, lower);
}

// Whether the fields Connection, which are lists, name a field.
bool is_named_by_connection(const gyre::http::field_list& fields, std::string_view name) {
  for (const auto& [key, list] : fields) {
    if (!equals_ignoring_case(key, "connection")) continue;
    for (std::size_t begin = 0; begin < list.size();) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      const std::size_t first = std::min(list.find_first_not_of(" \t", begin), end);
      const std::size_t last = list.find_last_not_of(" \t", end - 1) + 1;
      if (first < end && equals_ignoring_case(list.substr(first, last - first), name)) return true;
      begin = end + 1;
    }
  }
  return false;
}

// Fields about one connection end with it (RFC 9110, 7.6.1): those that Connection names, and some
// others. Further ones are written by the server and the client themselves.
gyre::http::fields forwarded(const gyre::http::field_list& received) {
  static constexpr std::array<std::string_view, 10> kept_back = {
      "connection", "content-length",    "expect", "host", "keep-alive", "proxy-connection", "te",
      "trailer",    "transfer-encoding", "upgrade"};
  gyre::http::fields copy;
  for (const auto& [name, value] : received) {
    const auto is_name = [&](std::string_view each) { return equals_ignoring_case(name, each); };
    const bool ends_here = std::ranges::any_of(kept_back, is_name);
    if (!ends_here && !is_named_by_connection(received, name)) copy.add(name, value);
  }
  return copy;
}

class balancer {
 public:
  balancer(gyre::event_loop& loop, std::vector<backend> backends)
      : client_(loop, {.follow_redirects = false, .decompress = false}),
        backends_(std::move(backends)) {}

  gyre::task<response> forward(request& request) {
    for (std::size_t tries = 0; tries != backends_.size(); ++tries) {
      backend& to = backends_[next_++ % backends_.size()];
      if (!to.healthy) continue;
      try {
        auto answer = client_.stream(copy_of(request, to));
        co_return copy_of(co_await std::move(answer));
      } catch (const std::system_error& error) {
        std::cerr << to.url << ": " << error.what() << '\n';
        to.healthy = false;
        if (!is_idempotent(request.method())) break;  // the backend may have done it
      }
    }
    co_return response::text("no backend answers\n", gyre::http::status::bad_gateway);
  }

  gyre::task<> check(std::size_t index) {
    backend& of = backends_[index];
    for (;;) {
      try {
        gyre::http::client_request health(gyre::http::method::get, of.url + "/health");
        auto answer = client_.send(std::move(health.set_total_timeout(1s)));
        of.healthy = (co_await std::move(answer)).is_success();
      } catch (const std::system_error&) {
        of.healthy = false;
      }
      co_await gyre::sleep_for(1s);
    }
  }

 private:
  static gyre::http::client_request copy_of(const request& request, const backend& to) {
    gyre::http::client_request copy(request.method_text(), to.url + std::string(request.target()));
    if (!request.body().empty()) copy.set_body("", std::string(request.body()));
    copy.fields() = forwarded(request.fields());
    copy.add("X-Forwarded-For", request.peer_endpoint().address().to_string());
    return copy;
  }

  // The body passes through piece by piece: a slow client makes the backend wait. The end comes
  // when the backend has the whole request, too, as it may answer while it reads.
  static response copy_of(gyre::http::client_response from) {
    const gyre::http::status status = from.status();
    gyre::http::fields fields = forwarded(from.fields());
    auto pass = [from = std::move(from)](gyre::http::body_writer& to) mutable -> gyre::task<> {
      while (auto piece = co_await from.next_chunk()) co_await to.write(*piece);
    };
    response copy = response::stream("", std::move(pass));
    copy.set_status(status);
    copy.fields() = std::move(fields);
    return copy;
  }

  gyre::http::client client_;
  std::vector<backend> backends_;
  std::size_t next_ = 0;
};

gyre::task<> serve(gyre::runtime& rt, gyre::net::endpoint address, std::vector<backend> backends) {
  const std::size_t count = backends.size();
  balancer balancer(rt.loops()[0], std::move(backends));
  gyre::http::server server(rt.loops()[0], address);
  server.use([&balancer](request& request, gyre::http::next_handler) {  // whatever the path
    return balancer.forward(request);
  });
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;

  auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, [&] { return server.stop_async(); });
  auto check_each = [&](gyre::scope& checks) -> gyre::task<> {
    for (std::size_t index = 0; index != count; ++index) checks.spawn(balancer.check(index));
    co_await rt.drained();
    checks.request_stop();
  };
  co_await gyre::with_scope(check_each);
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: reverse_proxy ADDRESS:PORT BACKEND...\n";
    return 2;
  }
  const std::vector<backend> backends = [&] {
    std::vector<backend> all;
    for (int i = 2; i != argc; ++i) all.push_back({.url = argv[i]});
    return all;
  }();
  return gyre::runtime::main([&](gyre::runtime& rt) { return serve(rt, argv[1], backends); });
}
