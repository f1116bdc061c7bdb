// SPDX-License-Identifier: Apache-2.0
// Callbacks with parameters other than those that servers and clients pass, and calls with wrong
// functions.
#include <gyre/net/reconnecting_client.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/udp_server.hpp>
#include <gyre/runtime/signal_set.hpp>
#include <gyre/task/task.hpp>

#include <csignal>
#include <string_view>
#include <utility>

namespace {

using gyre::task;

void takes_a_message_as_text(gyre::net::tcp_server& server) {
  // expect: the callback takes (gyre::net::tcp_connection&, gyre::io::input&)
  server.on_message([](gyre::net::tcp_connection&, std::string_view) {});
}

void takes_a_message_by_a_coroutine(gyre::net::tcp_server& server) {
  // expect: use gyre::spawn(executor, coroutine())
  server.on_message([](gyre::net::tcp_connection&, gyre::io::input&) -> task<> { co_return; });
}

void takes_no_connection(gyre::net::tcp_server& server) {
  // expect: the callback takes (gyre::net::tcp_connection&)
  server.on_connection([] {});
}

void takes_a_close_without_its_reason(gyre::net::tcp_client& client) {
  // expect: the callback takes (gyre::net::tcp_connection&, std::error_code)
  client.on_close([](gyre::net::tcp_connection&) {});
}

void takes_a_high_water_mark_without_its_bytes(gyre::net::tcp_client& client) {
  // expect: the callback takes (gyre::net::tcp_connection&, std::size_t)
  client.on_high_water([](gyre::net::tcp_connection&) {});
}

void takes_a_failed_accept(gyre::net::tcp_server& server) {
  // expect: the callback takes (std::error_code)
  server.on_accept_error([] {});
}

void takes_a_stop_without_its_connection(gyre::net::tcp_server& server) {
  // expect: the callback takes (gyre::net::tcp_connection&)
  server.on_stopping([] {});
}

void takes_a_failed_attempt(gyre::net::tcp_client& client) {
  // expect: the callback takes (std::error_code, std::size_t attempts, bool last)
  client.on_connect_failed([](std::error_code) {});
}

void takes_a_datagram_without_its_sender(gyre::net::udp_server& server) {
  // expect: the callback takes (gyre::net::udp_server::channel&, std::span<const std::byte>
  server.on_datagram([](gyre::net::udp_server::channel&, std::string_view) {});
}

void calls_with_a_task(gyre::net::reconnecting_client<>& client, task<> work) {
  // expect: a function that takes a reference to the connection and returns an awaitable
  static_cast<void>(client.call(std::move(work)));
}

void calls_without_a_result_to_await(gyre::net::reconnecting_client<>& client) {
  // expect: a function that takes a reference to the connection and returns an awaitable
  static_cast<void>(client.call_idempotent([](gyre::net::tcp_stream&) { return 1; }));
}

void takes_a_signal_by_its_number(gyre::event_loop& loop) {
  // expect: the callback of a signal_set takes (const gyre::signal_info&)
  gyre::signal_set quit(loop, {SIGINT}, [](int) {});
}

}  // namespace
