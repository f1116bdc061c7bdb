// SPDX-License-Identifier: Apache-2.0
// Servers of tests of the HTTP client: a socket on the thread that also runs the loop, so that a
// test says which bytes come when; and requests that run beside it.
#pragma once

#include <gyre/http/client.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <chrono>
#include <exception>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::http::test {

/// A response with the body "ok".
inline constexpr std::string_view ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A listening socket, whose connections the test serves by hand.
class scripted_server {
 public:
  scripted_server()
      : listener_(net::socket::open(net::address_family::ipv4, net::socket_type::stream)) {
    listener_.bind(net::test::any_port());
    listener_.listen();
    endpoint_ = listener_.local_endpoint();
  }

  std::string url(std::string_view path = "/") const {
    return "http://" + endpoint_.to_string() + std::string(path);
  }
  std::string authority() const { return endpoint_.to_string(); }
  const net::endpoint& local_endpoint() const noexcept { return endpoint_; }

  /// The next connection; null if none waits.
  net::test::peer* accept() {
    const int accepted = ::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted < 0) return nullptr;
    return &peers_.emplace_back(net::socket(unique_fd(accepted)));
  }
  void close() { listener_.close(); }

 private:
  net::socket listener_;
  net::endpoint endpoint_;
  std::list<net::test::peer> peers_;
};

/// A request that runs on the loop. Must outlive the loop's next turns until it has ended.
class running_request {
 public:
  running_request(event_loop& loop, task<client_response> sending) {
    spawn(loop, run(std::move(sending)),
          {.stop = stop_.get_token(), .on_error = [this](const std::exception_ptr& error) {
             error_ = error;
             done_ = true;
           }});
  }
  running_request(const running_request&) = delete;
  running_request& operator=(const running_request&) = delete;

  bool done() const noexcept { return done_; }
  void request_stop() noexcept { stop_.request_stop(); }
  bool has_response() const noexcept { return response_.has_value(); }
  /// Fails the test if there is none.
  client_response& response() {
    if (!response_) throw std::runtime_error("no response: " + message());
    return *response_;
  }
  std::error_code error() const { return described().first; }
  std::string message() const { return described().second; }

 private:
  task<> run(task<client_response> sending) {
    auto result = as_result(std::move(sending));
    auto sent = co_await std::move(result);
    if (sent) {
      response_.emplace(std::move(*sent));
    } else {
      error_ = sent.error();
    }
    done_ = true;
  }
  std::pair<std::error_code, std::string> described() const {
    if (error_ == nullptr) return {};
    try {
      std::rethrow_exception(error_);
    } catch (const std::system_error& error) {
      return {error.code(), error.what()};
    } catch (const std::exception& error) {
      return {std::make_error_code(std::errc::state_not_recoverable), error.what()};
    }
  }

  inplace_stop_source stop_;
  std::optional<client_response> response_;
  std::exception_ptr error_;
  bool done_ = false;
};

/// The fixture: a loop in virtual time, a server, and a client.
class http_client_test : public testing::Test {
 protected:
  ~http_client_test() override {
    for (running_request& each : running) each.request_stop();
    for (running_request& each : running) finish(each);
    running.clear();
    client.reset();
    virtual_time.settle();
  }

  void make(client_options options = {}) { client.emplace(virtual_time.loop, std::move(options)); }
  running_request& start(task<client_response> sending) {
    return running.emplace_back(virtual_time.loop, std::move(sending));
  }
  running_request& send(client_request request) { return start(client->send(std::move(request))); }
  running_request& get(std::string_view path = "/") {
    return send(client_request(method::get, server.url(path)));
  }
  /// The next connection to the server.
  net::test::peer& accept() {
    net::test::peer* accepted = nullptr;
    virtual_time.turn_until([&] { return (accepted = server.accept()) != nullptr; });
    return *accepted;
  }
  /// Receives until `end` has come, and takes the bytes up to it.
  std::string receive_until(net::test::peer& from, std::string_view end) {
    std::size_t at = std::string::npos;
    virtual_time.turn_until([&] {
      from.receive();
      at = from.text.find(end);
      return at != std::string::npos || from.ended;
    });
    if (at == std::string::npos) return "ended: " + from.text;
    std::string taken = from.text.substr(0, at + end.size());
    from.text.erase(0, taken.size());
    return taken;
  }
  std::string receive_head(net::test::peer& from) { return receive_until(from, "\r\n\r\n"); }
  /// Whether the client ends the connection.
  bool ends(net::test::peer& from) {
    virtual_time.turn_until([&] {
      from.receive();
      return from.ended;
    });
    return true;
  }
  running_request& finish(running_request& request) {
    virtual_time.turn_until([&] { return request.done(); });
    return request;
  }
  /// Answers one request with these bytes, on a new connection that is then ended.
  running_request& answer_get(std::string_view bytes) {
    running_request& request = get();
    net::test::peer& peer = accept();
    receive_head(peer);
    peer.send(bytes);
    peer.end_sending();
    return finish(request);
  }

  gyre::test::io_in_virtual_time virtual_time;
  scripted_server server;
  std::optional<http::client> client;
  std::list<running_request> running;
};

}  // namespace gyre::http::test
