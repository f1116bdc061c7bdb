// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_relay.hpp>

#include <gyre/http/detail/spare_buffers.hpp>
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

// A wait for input, which the end of the socket may end.
class websocket_relay::wait_scope {
 public:
  explicit wait_scope(websocket_relay& relay) noexcept : relay_(relay) {
    relay.is_waiting_ = true;
    relay.wake_.reset();
  }
  wait_scope(const wait_scope&) = delete;
  wait_scope& operator=(const wait_scope&) = delete;
  ~wait_scope() {
    relay_.is_waiting_ = false;
    relay_.transport_->end_wait();
  }

 private:
  websocket_relay& relay_;
};

websocket_relay::websocket_relay(event_loop& loop, std::unique_ptr<websocket_transport> transport,
                                 websocket_role role, const websocket_options& options,
                                 websocket_agreement agreement, websocket_callbacks callbacks,
                                 inplace_stop_token server_stop)
    : websocket_driver(loop.now(), role, options, std::move(agreement), std::move(callbacks)),
      loop_(loop),
      transport_(std::move(transport)),
      server_stop_token_(server_stop) {
  if (server_stop.stop_possible()) server_stop_.emplace(server_stop, begin_stop{this});
}

websocket_relay::~websocket_relay() {
  server_stop_.reset();
  abandon();
}

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
    auto receiving = receive();
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
task<> websocket_relay::receive() {
  while (!has_ended()) {
    if (!may_receive_.is_set()) {
      co_await may_receive_.wait();
      continue;
    }
    io::input input(transport_->input());
    if (input.empty()) {
      if (transport_->has_ended()) co_return end(websocket_errc::ended);
      auto waiting = wait_for_input();
      co_await std::move(waiting);
      continue;
    }
    const std::size_t size = input.size();
    take_input(input);
    transport_->consume(size - input.size());
    if (!input.empty()) co_await yield();
  }
}

task<> websocket_relay::wait_for_input() {
  const wait_scope waits(*this);
  if (auto reading = transport_->begin_wait(*this)) {
    co_await std::move(*reading);
  } else {
    co_await wake_.wait();
  }
}

// Waits until the output was sent, and the peer's Close frame has come. Drops what comes before.
task<> websocket_relay::await_close() {
  while (!has_failed_ && !session().received_close()) {
    std::span<const std::byte> rest = transport_->input();
    const std::size_t size = rest.size();
    const auto event = session().next(rest, receiving::pieces);
    transport_->consume(size - rest.size());
    if (event == websocket_session::event::message) continue;
    if (event != websocket_session::event::wants_input || transport_->has_ended()) break;
    auto waiting = wait_for_input();
    co_await std::move(waiting);
  }
  co_await output_ended_.wait();
}

// The bytes stay in the transport, from which the coroutine takes them in a turn of its own:
// handlers may end everything, which the caller uses still.
void websocket_relay::on_input(io::input& /*input*/) { wake_.set(); }

// --- Sending ---

io::buffer& websocket_relay::output() {
  if (queue_.empty()) take_spare_buffer(queue_);
  return queue_;
}

void websocket_relay::flush(std::span<const std::byte> bytes) {
  if (has_failed_) return;
  if (!bytes.empty()) output().append(bytes);
  if (!queue_.empty()) must_send_.set();
}

bool websocket_relay::schedule_flush() noexcept {
  must_send_.set();
  return true;
}

// Sends what waits until the socket has ended and nothing waits.
task<> websocket_relay::move_output() {
  for (;;) {
    std::exception_ptr error;
    try {
      while (!queue_.empty() && !has_failed_) {
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
    if (has_failed_) end(websocket_errc::ended);
    if (is_closing_) break;
    co_await must_send_.wait();
  }
  output_ended_.set();
}

task<> websocket_relay::send_queue() {
  std::swap(queue_, sending_);
  if (auto rest = transport_->send(sending_.bytes())) co_await std::move(*rest);
  keep_spare_buffer(sending_);
  on_output_taken();
}

// --- The end ---

void websocket_relay::abort() noexcept {
  has_failed_ = true;
  queue_.clear();
  must_send_.set();
}

void websocket_relay::conclude(const std::exception_ptr& failure, bool /*has_left*/) noexcept {
  failure_ = failure;
  if (!failure) return;
  // An error of a server's handler is reported only while the client is there. So the server does
  // not wait for the client's Close frame, unless its own one would be lost by the error.
  awaits_close_ = session().role() == websocket_role::client || !transport_->keeps_output();
}

void websocket_relay::close_when_sent() noexcept {
  is_closing_ = true;
  must_send_.set();
  may_receive_.set();
  if (!is_waiting_) return;
  transport_->interrupt();
  wake_.set();
}

}  // namespace gyre::http::detail
