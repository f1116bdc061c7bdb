// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_relay.hpp>

#include <gyre/http/websocket_error.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/when_all.hpp>

#include <utility>

namespace gyre::http::detail {

websocket_relay::websocket_relay(event_loop& loop, std::unique_ptr<websocket_transport> transport,
                                 websocket_role role, const websocket_options& options,
                                 websocket_agreement agreement, websocket_callbacks callbacks,
                                 inplace_stop_token server_stop)
    : transport_driver(loop, std::move(transport), role, options, std::move(agreement), server_stop,
                       std::move(callbacks)) {}

task<> websocket_relay::run() {
  io::input nothing;
  take_input(nothing);  // opens the socket
  auto moving =
      when_all(move_input(), shielded(stop_when(move_output(), output_stop_.get_token())));
  co_await std::move(moving);
  if (failure_) co_await gyre::detail::fail_with(failure_);
}

// --- Receiving ---

task<> websocket_relay::move_input() {
  std::exception_ptr error;
  try {
    auto receiving = receive_all();
    co_await std::move(receiving);
  } catch (...) {
    error = gyre::detail::caught_error();
  }
  if (error && gyre::detail::is_cancelled(error)) {
    awaits_close_ = true;
    go_away_now();
    if (!failure_) failure_ = error;
  } else if (error) {
    end(net::detail::code_of(error));
  }
  if (!awaits_close_) co_return;
  const duration limit = session().settings().timeouts.close;
  auto closing = as_result(shielded(await_close(), limit.count() == 0 ? duration::max() : limit));
  co_await std::move(closing);
  output_stop_.request_stop();
}

// Passes bytes on until the socket has ended.
task<> websocket_relay::receive_all() {
  while (!has_ended()) {
    if (!may_receive_.is_set()) {
      co_await may_receive_.wait();
      continue;
    }
    io::input input(transport().input());
    if (input.empty()) {
      if (transport().has_ended()) co_return end(websocket_errc::ended);
      auto waiting = wait_for_input();
      co_await std::move(waiting);
      continue;
    }
    const std::size_t size = input.size();
    take_input(input);
    transport().consume(size - input.size());
    if (!input.empty()) co_await yield();
  }
}

// Waits until the output was sent, and the peer's Close frame has come. Drops what comes before.
task<> websocket_relay::await_close() {
  while (can_send() && !session().received_close()) {
    std::span<const std::byte> rest = transport().input();
    const std::size_t size = rest.size();
    const auto event = session().next(rest, receiving::pieces);
    transport().consume(size - rest.size());
    if (event == websocket_session::event::message) continue;
    if (event != websocket_session::event::wants_input || transport().has_ended()) break;
    auto waiting = wait_for_input();
    co_await std::move(waiting);
  }
  co_await output_ended_.wait();
}

// --- Sending ---

// Sends what waits until the socket has ended and nothing waits.
task<> websocket_relay::move_output() {
  for (;;) {
    std::exception_ptr error;
    try {
      while (has_queued_output() && can_send()) {
        auto sending = send_queue();
        co_await std::move(sending);
      }
    } catch (...) {
      error = gyre::detail::caught_error();
    }
    if (error) {
      abort();
      end(net::detail::code_of(error));
    }
    if (!can_send()) end(websocket_errc::ended);
    if (is_closing_) break;
    co_await must_send_.wait();
  }
  output_ended_.set();
}

// --- The end ---

void websocket_relay::abort() noexcept {
  fail_output();
  must_send_.set();
}

void websocket_relay::conclude(const std::exception_ptr& failure, bool /*has_left*/) noexcept {
  failure_ = failure;
  if (!failure) return;
  // An error of a server's handler is reported only while the client is there. So the server does
  // not wait for the client's Close frame.
  awaits_close_ = session().role() == websocket_role::client;
}

void websocket_relay::close_when_sent() noexcept {
  is_closing_ = true;
  must_send_.set();
  may_receive_.set();
  wake();
}

}  // namespace gyre::http::detail
