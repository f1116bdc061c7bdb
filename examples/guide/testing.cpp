// SPDX-License-Identifier: Apache-2.0
// Guide to tests of programs that use gyre: the program under test, and a test of each kind.
// check() stands for the assertions of a test framework.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/http/event_stream.hpp>
#include <gyre/http/server.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/allocations.hpp>
#include <gyre/testing/explore.hpp>
#include <gyre/testing/fake_dns_server.hpp>
#include <gyre/testing/http_client.hpp>
#include <gyre/testing/io_in_virtual_time.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <gyre/testing/scripted_peer.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

using namespace std::chrono_literals;

void check(bool holds) {
  if (!holds) std::abort();
}

// Tries until an attempt succeeds, with growing delays between.
gyre::task<int> retry(int& attempts_that_fail) {
  for (auto delay = 1min;; delay *= 2) {
    if (attempts_that_fail-- <= 0) co_return 42;
    co_await gyre::sleep_for(delay);
  }
}

void time_passes_at_once() {
  int failures = 10;
  check(gyre::testing::run_in_virtual_time(retry(failures)) == 42);  // after 17 hours, at once
}

void time_passes_step_by_step() {
  gyre::testing::manual_executor executor;
  int failures = 2;
  gyre::spawn(executor, retry(failures));
  executor.run_all();
  check(failures == 1);   // the first attempt has failed
  executor.advance(59s);  // not yet
  check(failures == 1);
  executor.advance(1s);
  check(failures == 0);
}

void a_loop_in_virtual_time() {
  gyre::testing::virtual_time_loop virtual_time;
  int ticks = 0;
  gyre::timer timer(virtual_time.loop, [&] { ++ticks; });
  timer.start_every(1s);
  virtual_time.loop.run_for(1h);
  check(ticks >= 3599);
}

// Greets each line by the name in it, until the peer ends its side.
gyre::task<> greet(gyre::io::stream& stream) {
  gyre::io::buffer input;
  for (;;) {
    auto line = co_await gyre::as_expected(gyre::with_timeout(stream.read_until(input, "\n"), 10s));
    if (!line) co_return;
    std::string name(input.text().substr(0, *line));
    input.consume(*line);
    co_await stream.write_all("hello, " + name);
  }
}

void a_line_comes_in_pieces() {
  gyre::testing::virtual_time_loop virtual_time;
  gyre::testing::scripted_peer peer(virtual_time);
  peer.send("an").wait(5s).send("na\nbo").wait(5s).send("b\n").end();
  auto stream = peer.connect();
  virtual_time.run(greet(stream));
  check(peer.received() == "hello, anna\nhello, bob\n");
}

void a_slow_peer_is_given_up() {
  gyre::testing::virtual_time_loop virtual_time;
  gyre::testing::scripted_peer peer(virtual_time);
  peer.send("an").wait(11s).send("na\n");
  auto stream = peer.connect();
  virtual_time.run(greet(stream));
  check(peer.received().empty());
}

void a_write_fails_half_way() {
  gyre::testing::virtual_time_loop virtual_time;
  gyre::testing::scripted_peer peer(virtual_time);
  peer.send("anna\n").take_at_most(3).fail_write(std::errc::broken_pipe);
  auto stream = peer.connect();
  try {
    virtual_time.run(greet(stream));
    check(false);
  } catch (const std::system_error& error) {
    check(error.code() == std::errc::broken_pipe);
  }
  check(peer.received() == "hel");
}

struct account {
  int balance = 100;
};

gyre::task<> withdraw(account& from, int amount) {
  if (from.balance < amount) co_return;
  co_await gyre::yield();  // asks another service, say
  from.balance -= amount;
}

gyre::task<> withdraw_twice(gyre::executor&) {
  account shared;
  co_await gyre::when_all(withdraw(shared, 60), withdraw(shared, 60));
  if (shared.balance < 0) throw std::logic_error("overdrawn");
}

void an_order_that_fails_is_found() {
  const auto found = gyre::testing::explore(100, withdraw_twice);
  check(!found.passed());
  const auto again = gyre::testing::explore(1, withdraw_twice, {.first_seed = *found.failed_seed});
  check(!again.passed());  // the same order
}

void a_full_table_of_descriptors_is_reported() {
  gyre::loop loop;
  const gyre::testing::fault full("pipe2", EMFILE);  // the next call fails
  const int open = gyre::testing::open_descriptors();
  try {
    gyre::io::make_pipe(loop);
    check(false);
  } catch (const std::system_error& error) {
    check(error.code() == std::errc::too_many_files_open);
  }
  check(gyre::testing::open_descriptors() == open);  // nothing leaked
}

gyre::task<std::size_t> count_addresses(gyre::net::resolver& names) {
  const auto found = co_await names.resolve("www.example.org", "https");
  co_return found.size();
}

void a_name_server_that_answers_as_told() {
  gyre::loop loop;
  gyre::testing::fake_dns_server dns(loop);
  dns["www.example.org"].addresses = {gyre::net::ip_address("192.0.2.1")};
  gyre::net::resolver names(
      loop, {.servers = {dns.local_endpoint()}, .order = gyre::net::lookup_order::dns_only});
  check(gyre::sync_wait(loop, count_addresses(names)) == 1);
}

void add_routes(gyre::http::server& server) {
  server.get("/users/{name}", [](gyre::http::request& request) -> gyre::task<gyre::http::response> {
    co_await gyre::sleep_for(3s);  // asks a slow database, say
    if (request.param("name") != "ada") {
      co_return gyre::http::response(gyre::http::status::not_found);
    }
    co_return gyre::http::response::json(R"({"name":"Ada"})");
  });
  server.get("/ticks", [](gyre::http::request&) {
    return gyre::http::event_stream([](gyre::http::event_writer& events) -> gyre::task<> {
      for (int hour = 1;; ++hour) {
        co_await gyre::sleep_for(1h);
        const std::string text = "hour " + std::to_string(hour);
        co_await events.send(text);
      }
    });
  });
}

void handlers_are_called_without_a_port() {
  gyre::testing::io_in_virtual_time world;
  gyre::http::server server(world.loop);
  add_routes(server);
  gyre::testing::http_client client(world, server);

  auto found = client.get("/users/ada");
  check(found.status() == gyre::http::status::ok);
  check(found.field("Content-Type") == "application/json");
  check(found.body() == R"({"name":"Ada"})");
  check(client.get("/users/grace").status() == gyre::http::status::not_found);
  check(client.post("/users/ada", "text/plain", "x").status() ==
        gyre::http::status::method_not_allowed);
}

void events_come_one_by_one_until_the_client_leaves() {
  gyre::testing::io_in_virtual_time world;
  gyre::http::server server(world.loop);
  add_routes(server);
  gyre::testing::http_client client(world, server);

  auto ticks = client.start("/ticks");
  check(ticks.next_event()->data == "hour 1");  // after an hour of virtual time, at once
  check(ticks.next_event()->data == "hour 2");
  check(server.metrics().active == 1);
  ticks.leave();  // in the middle: the handler is requested to stop
  check(server.metrics().active == 0);
}

gyre::task<gyre::http::response> count_bytes(gyre::http::request& request) {
  std::size_t count = 0;
  for (;;) {
    auto reading = request.next_chunk();
    auto piece = co_await std::move(reading);
    if (!piece) co_return gyre::http::response::text(std::to_string(count));
    count += piece->size();
  }
}

void an_upload_is_sent_in_pieces() {
  gyre::testing::io_in_virtual_time world;
  gyre::http::server server(world.loop);
  server.post("/count", count_bytes, {.streamed_body = true, .body_limit = 1'000'000});
  gyre::testing::http_client client(world, server);

  auto upload = client.request(gyre::http::method::post, "/count");
  upload.set_stream("text/plain", [](gyre::http::request_body_writer& body) -> gyre::task<> {
    for (int piece = 0; piece < 10; ++piece) {
      co_await gyre::sleep_for(500ms);
      co_await body.write("ten bytes.");
    }
  });
  check(client.send(std::move(upload)).body() == "100");
  auto too_long = client.post("/count", "text/plain", std::string(1'000'001, 'x'));
  check(too_long.status() == gyre::http::status::content_too_large);
}

gyre::task<std::string> talk(gyre::net::tcp_stream connection, std::string_view bytes) {
  std::string answer;
  co_await connection.write_all(bytes);
  for (;;) {
    auto received = co_await connection.receive();
    if (received.empty()) co_return answer;
    answer += received.text();
  }
}

void malformed_bytes_are_refused() {
  gyre::testing::io_in_virtual_time world;
  gyre::http::server server(world.loop);
  add_routes(server);
  gyre::testing::http_client client(world, server);
  check(world.run(talk(client.connect(), "GET /ticks HTTP/1.1\r\n\r\n"))
            .starts_with("HTTP/1.1 400 "));                                          // no Host
  check(world.run(talk(client.connect(), "GET /ti")).starts_with("HTTP/1.1 408 "));  // and no more
}

void nothing_is_allocated_or_leaked() {
  gyre::testing::manual_executor executor;
  int failures = 0;
  gyre::testing::run_in_virtual_time(executor, retry(failures));  // warms up
  const gyre::testing::allocation_count during;
  gyre::testing::run_in_virtual_time(executor, retry(failures));
  check(during.slab_blocks() == 0);  // every frame was given back
  check(during.bytes_in_use() == 0);
}

int main() {
  time_passes_at_once();
  time_passes_step_by_step();
  a_loop_in_virtual_time();
  a_line_comes_in_pieces();
  a_slow_peer_is_given_up();
  a_write_fails_half_way();
  an_order_that_fails_is_found();
  a_full_table_of_descriptors_is_reported();
  a_name_server_that_answers_as_told();
  handlers_are_called_without_a_port();
  events_come_one_by_one_until_the_client_leaves();
  an_upload_is_sent_in_pieces();
  malformed_bytes_are_refused();
  nothing_is_allocated_or_leaked();
  std::cout << "all tests passed\n";
}
