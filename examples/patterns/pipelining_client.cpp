// SPDX-License-Identifier: Apache-2.0
// A client that has many requests on their way on one connection, and survives its loss. For
// docs/guide/patterns.md.
#include <gyre/gyre.hpp>

#include <chrono>
#include <cstddef>
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using gyre::net::delimited;
using lines = gyre::net::framed<delimited, gyre::net::tcp_stream>;

// The server answers in the order of the requests, so the oldest waits for the next reply.
class pipeline {
 public:
  pipeline(gyre::executor& where, gyre::net::tcp_stream connected)
      : lines_(std::move(connected), delimited("\n")), tasks_(where) {
    tasks_.spawn(receive());
  }

  gyre::task<std::string> ask(std::string request) {
    auto [reply, answer] = gyre::make_oneshot<std::string>();
    auto turn = co_await sending_.lock();
    if (!lost_) {
      waiting_.push_back(std::move(reply));
      // A stop must not leave half a request.
      const auto sent = co_await gyre::as_result(gyre::shielded(lines_.send(request), 5s));
      if (!sent) lose();
    }
    turn.unlock();
    std::optional<std::string> received;
    if (!lost_) received = co_await answer.receive();
    if (!received) throw std::system_error(std::make_error_code(std::errc::connection_reset));
    co_return std::move(*received);
  }

  // For the reconnecting_client: whether further requests may be sent; the end, to be awaited.
  bool is_reusable() const { return !lost_; }
  gyre::task<> stop() {
    tasks_.request_stop();
    co_await tasks_.join();
  }

 private:
  gyre::task<> receive() {
    auto replies = gyre::as_result(hand_out_replies());
    static_cast<void>(co_await std::move(replies));
    lose();
  }
  void lose() {
    lost_ = true;
    waiting_.clear();  // these get no reply
  }
  gyre::task<> hand_out_replies() {
    while (true) {
      const std::optional<std::string_view> line = co_await lines_.next();
      if (!line || waiting_.empty()) co_return;
      waiting_.front().send(std::string(*line));
      waiting_.pop_front();
    }
  }

  lines lines_;
  gyre::mutex sending_;
  std::deque<gyre::oneshot_sender<std::string>> waiting_;
  bool lost_ = false;
  gyre::async_scope tasks_;
};

gyre::task<> use(gyre::event_loop& loop, std::string address) {
  const auto start =
      [&loop](gyre::net::tcp_stream connected) -> gyre::task<std::unique_ptr<pipeline>> {
    co_return std::make_unique<pipeline>(loop, std::move(connected));
  };
  gyre::net::reconnecting_client server(loop, address, start, {.concurrency = 64});
  std::vector<gyre::task<std::string>> requests;
  for (int i = 1; i <= 200; ++i) {
    const auto get = [i](pipeline& peer) { return peer.ask("GET key" + std::to_string(i)); };
    requests.push_back(server.call_idempotent(get));
  }
  const std::vector<std::string> replies = co_await gyre::when_all(std::move(requests));
  co_await server.stop();
  std::cout << replies.size() << " replies, the last to " << replies.back() << '\n'
            << server.metrics().connected << " connections\n";
}

// Answers with the request; the first connection is lost after ten answers.
gyre::task<> serve(gyre::net::tcp_listener& listener) {
  for (std::size_t left = 10;; left = 1'000'000) {
    gyre::net::tcp_stream peer = co_await listener.accept();
    lines client(std::move(peer), delimited("\n"));
    for (; left > 0; --left) {
      const std::optional<std::string_view> request = co_await client.next();
      if (!request) break;
      co_await client.send(*request);
    }
  }
}

}  // namespace

int main() {
  gyre::loop loop;
  gyre::net::tcp_listener listener(loop, "127.0.0.1:0");
  gyre::task<> client_work = use(loop, listener.local_endpoint().to_string());
  gyre::sync_wait(loop, gyre::when_any(std::move(client_work), serve(listener)));
}
