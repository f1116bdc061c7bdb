// SPDX-License-Identifier: Apache-2.0
// A key-value server, and clients that share a few connections. For docs/guide/patterns.md.
#include <gyre/gyre.hpp>

#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using gyre::net::delimited;
using lines = gyre::net::framed<delimited, gyre::net::tcp_stream>;

class store {
 public:
  // "SET key value" gives "OK", "GET key" the value, or "NONE".
  std::string answer(std::string_view request) {
    const std::string_view command = take_word(request);
    const std::string key(take_word(request));
    if (command == "SET") {
      values_[key] = std::string(request);
      return "OK";
    }
    const auto found = values_.find(key);
    return command == "GET" && found != values_.end() ? found->second : "NONE";
  }

 private:
  static std::string_view take_word(std::string_view& text) {
    const std::size_t end = text.find(' ');
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    return word;
  }

  std::map<std::string, std::string> values_;
};

gyre::task<> serve_client(gyre::net::tcp_stream peer, store& values) {
  lines client(std::move(peer), delimited("\n"));
  while (true) {
    const std::optional<std::string_view> request = co_await client.next();
    if (!request) co_return;
    const std::string reply = values.answer(*request);
    co_await client.send(reply);
  }
}

gyre::task<> serve(gyre::net::tcp_listener& listener, store& values) {
  co_await gyre::with_scope([&](gyre::scope& clients) -> gyre::task<> {
    while (true) {
      gyre::net::tcp_stream peer = co_await listener.accept();
      // A client that breaks off ends its own task only.
      clients.spawn(gyre::as_result(serve_client(std::move(peer), values)));
    }
  });
}

gyre::task<lines> prepare(gyre::net::tcp_stream connected) {
  co_return lines(std::move(connected), delimited("\n"));  // a login would be here
}

gyre::task<std::string> ask(gyre::net::connection_pool<lines>& servers, std::string request) {
  auto server = co_await servers.acquire();
  co_await server->send(request);
  const std::optional<std::string_view> reply = co_await server->next();
  if (!reply) throw std::system_error(std::make_error_code(std::errc::connection_reset));
  std::string value(*reply);
  server.give_back();
  co_return value;
}

gyre::task<> use(gyre::event_loop& loop, std::string address) {
  gyre::net::connection_pool servers(loop, address, prepare, {.max_open = 4});
  std::vector<gyre::task<std::string>> requests;
  for (int i = 1; i <= 100; ++i) {
    const std::string number = std::to_string(i);
    std::string set = "SET key" + number;
    set += " value" + number;
    requests.push_back(ask(servers, std::move(set)));
  }
  const std::vector<std::string> replies = co_await gyre::when_all(std::move(requests));
  const std::string value = co_await ask(servers, "GET key100");
  std::cout << replies.front() << ' ' << value << ' ' << servers.metrics().created << '\n';
}

}  // namespace

int main() {
  gyre::loop loop;
  gyre::net::tcp_listener listener(loop, "127.0.0.1:0");
  store values;
  gyre::task<> client_work = use(loop, listener.local_endpoint().to_string());
  gyre::sync_wait(loop, gyre::when_any(std::move(client_work), serve(listener, values)));
}
