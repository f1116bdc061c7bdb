// SPDX-License-Identifier: Apache-2.0
// Guide to the network, parts 5 and 6: servers and clients with callbacks, and messages.
#include <gyre/exec/loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/framing.hpp>
#include <gyre/net/released_connection.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>

#include <charconv>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

using namespace std::chrono_literals;

const gyre::net::endpoint any_port(gyre::net::ip_address::loopback_v4(), 0);

// Returns the server's answer once it has `wanted` bytes.
std::string ask(const gyre::net::endpoint& server, std::string_view question, std::size_t wanted) {
  gyre::loop loop;
  std::string answer;
  gyre::net::tcp_client client(loop,
                               {.connect_timeout = 2s, .reconnect = true, .keep_limit = 4096});
  client.on_message([&](gyre::net::tcp_connection&, gyre::io::input& input) {
    answer += input.text();
    input.consume_all();
    if (answer.size() >= wanted) loop.stop();
  });
  client.on_connect_failed([&](std::error_code why, std::size_t attempts, bool) {
    std::cerr << "attempt " << attempts << ": " << why.message() << '\n';
  });
  client.connect(server);
  client.send(question);  // queued until it is connected
  loop.run();
  return answer;
}

void echo_no_faster_than_it_is_read() {
  gyre::loop_pool loops(2);
  gyre::net::tcp_server server(
      loops, {.strategy = gyre::net::accept_strategy::every_loop,
              .connections = {.high_water = 1 << 20, .low_water = 1 << 18, .idle_timeout = 60s},
              .max_connections = 10'000});
  server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    connection.send(input.bytes());
    input.consume_all();
  });
  server.on_high_water([](gyre::net::tcp_connection& slow, std::size_t) { slow.pause_reading(); });
  server.on_low_water([](gyre::net::tcp_connection& slow) { slow.resume_reading(); });
  server.on_close([](gyre::net::tcp_connection& gone, std::error_code why) {
    if (why) std::cerr << gone.peer_endpoint() << ": " << why.message() << '\n';
  });
  server.listen(any_port);
  server.start();
  std::cout << ask(server.local_endpoint(), "hello\n", 6);
}

std::string looked_up(const std::string& word) { return word + " is a word\n"; }

void answer_from_another_thread() {
  gyre::loop_pool loops(1);
  gyre::thread_pool pool(2);            // after the loops, which its tasks call
  gyre::net::tcp_server server(loops);  // after the pool, which its handlers call
  server.on_message([&](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    std::string word(input.text());
    input.consume_all();
    pool.post([asking = connection.ref(), word = std::move(word)] {
      asking.send(looked_up(word));  // false if it is closed by then
    });
  });
  server.listen(any_port);
  server.start();
  std::cout << ask(server.local_endpoint(), "gyre", 15);
}

int number_in(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, number).ptr == end) return number;
  throw std::invalid_argument("not a number");
}

void tell(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    std::cout << error.what() << '\n';
  }
}

void be_hung_up_on(const gyre::net::endpoint& server, std::string_view question) {
  gyre::loop loop;
  gyre::net::tcp_client client(loop, {.keep_limit = 4096});
  client.on_close([&](gyre::net::tcp_connection&, std::error_code) { loop.stop(); });
  client.connect(server);
  client.send(question);
  loop.run();
}

void outlive_handlers_that_throw() {
  const auto one_loop = [](std::size_t) { return gyre::loop_options{.on_exception = tell}; };
  gyre::loop_pool loops(1, {.loop = one_loop});
  gyre::net::tcp_server server(loops);
  server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    const int number = number_in(input.text());  // throws if it is not a number
    input.consume_all();
    connection.send(std::to_string(2 * number));
  });
  server.listen(any_port);
  server.start();
  be_hung_up_on(server.local_endpoint(), "many");
  std::cout << ask(server.local_endpoint(), "21", 2) << '\n';
}

// Echoes lines until the peer has ended or gone.
gyre::task<> echo_lines(gyre::loop& loop, gyre::net::released_connection taken) {
  gyre::net::tcp_stream stream(loop, std::move(taken.socket));
  gyre::io::buffer& lines = taken.received;  // what came with the upgrade is there
  while (const auto size = co_await gyre::as_expected(stream.read_until(lines, "\n"))) {
    if (!co_await gyre::as_expected(stream.write_all(lines.take(*size)))) break;
  }
}

void upgrade_to_a_coroutine() {
  gyre::loop loop;
  gyre::net::tcp_server server(loop);
  server.on_message([&](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    if (!input.text().starts_with("upgrade\n")) return connection.close();
    input.consume(8);
    gyre::spawn(loop, echo_lines(loop, connection.release(input.bytes())));
  });
  server.listen(any_port);
  server.start();
  std::jthread asking([&] {
    std::cout << ask(server.local_endpoint(), "upgrade\nby a coroutine\n", 15);
    loop.stop();
  });
  loop.run();
}

void answer_messages() {
  gyre::loop_pool loops(1);
  gyre::net::tcp_server server(loops);
  const gyre::net::length_prefixed packets({.width = 2, .maximum = 1200});
  server.on_message([packets](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    gyre::io::buffer out;
    const std::error_code error = gyre::net::for_each_frame(
        packets, input, [&](std::span<const std::byte> payload) { packets.encode(out, payload); });
    if (error) {
      connection.abort(error);  // longer than the limit
    } else {
      connection.send(std::move(out));
    }
  });
  server.listen(any_port);
  server.start();

  gyre::io::buffer question;
  packets.encode(question, "whole");
  packets.encode(question, "messages");
  const std::string answer = ask(server.local_endpoint(), question.text(), question.size());
  gyre::io::input in(answer);
  const auto print = [](std::span<const std::byte> payload) {
    std::cout << gyre::io::input(payload).text() << '\n';
  };
  if (gyre::net::for_each_frame(packets, in, print)) std::cout << "not a message\n";
}

int main() {
  echo_no_faster_than_it_is_read();
  answer_from_another_thread();
  outlive_handlers_that_throw();
  upgrade_to_a_coroutine();
  answer_messages();
}
