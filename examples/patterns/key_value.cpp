// SPDX-License-Identifier: Apache-2.0
// A key-value server, and a client that has many requests on their way on one connection. For
// docs/guide/patterns.md.
#include <gyre/gyre.hpp>

#include <deque>
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
  gyre::net::framed lines(std::move(peer), delimited("\n"));
  while (true) {
    const std::optional<std::string_view> request = co_await lines.next();
    if (!request) co_return;
    const std::string reply = values.answer(*request);
    co_await lines.send(reply);
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

// The server answers in the order of the requests, so the oldest waits for the next reply.
class client {
 public:
  client(gyre::executor& where, gyre::net::tcp_stream connection)
      : lines_(std::move(connection), delimited("\n")), tasks_(where) {
    tasks_.spawn(gyre::as_result(receive()));
  }

  gyre::task<std::string> ask(std::string request) {
    auto [reply, answer] = gyre::make_oneshot<std::string>();
    auto turn = co_await sending_.lock();
    waiting_.push_back(std::move(reply));
    co_await lines_.send(request);
    turn.unlock();
    std::optional<std::string> received = co_await answer.receive();
    if (!received) throw std::system_error(std::make_error_code(std::errc::connection_reset));
    co_return std::move(*received);
  }

  // To be awaited before the destructor.
  gyre::task<> stop() {
    tasks_.request_stop();
    co_await tasks_.join();
  }

 private:
  gyre::task<> receive() {
    while (true) {
      const std::optional<std::string_view> line = co_await lines_.next();
      if (!line || waiting_.empty()) break;
      waiting_.front().send(std::string(*line));
      waiting_.pop_front();
    }
    waiting_.clear();  // these get no reply
  }

  gyre::net::framed<delimited, gyre::net::tcp_stream> lines_;
  gyre::mutex sending_;
  std::deque<gyre::oneshot_sender<std::string>> waiting_;
  gyre::async_scope tasks_;
};

gyre::task<> use(gyre::executor& where, std::string address) {
  gyre::net::tcp_stream connection = co_await gyre::net::connect(address);
  client keys(where, std::move(connection));
  std::vector<gyre::task<std::string>> requests;
  for (int i = 1; i <= 100; ++i) {
    const std::string number = std::to_string(i);
    std::string set = "SET key" + number;
    set += " value" + number;
    requests.push_back(keys.ask(std::move(set)));
    requests.push_back(keys.ask("GET key" + number));
  }
  const std::vector<std::string> replies = co_await gyre::when_all(std::move(requests));
  std::cout << replies.front() << ' ' << replies.back() << '\n';
  co_await keys.stop();
}

}  // namespace

int main() {
  gyre::loop loop;
  gyre::net::tcp_listener listener(loop, "127.0.0.1:0");
  store values;
  gyre::task<> client_work = use(loop, listener.local_endpoint().to_string());
  gyre::sync_wait(loop, gyre::when_any(std::move(client_work), serve(listener, values)));
}
