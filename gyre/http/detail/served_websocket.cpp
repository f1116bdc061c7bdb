// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/served_websocket.hpp>

#include <gyre/exec/event_loop.hpp>
#include <gyre/http/detail/serve_websocket.hpp>
#include <gyre/http/detail/spare_buffers.hpp>
#include <gyre/http/websocket_error.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/schedule.hpp>

#include <algorithm>
#include <utility>

namespace gyre::http::detail {
namespace {

// Bytes that are held for the next receive before the connection is paused.
constexpr std::size_t max_held = std::size_t{64} << 10;
// A function that sends without a wait must not keep the loop busy.
constexpr std::uint32_t max_sent_in_a_row = std::uint32_t{256} << 10;

task<> rethrow(std::exception_ptr error) {
  std::rethrow_exception(error);
  co_return;
}

}  // namespace

task<> served_function::call(function& serve) {
  try {
    return serve(handle_);
  } catch (...) {
    return rethrow(std::current_exception());
  }
}

served_websocket::served_websocket(function serve, net::tcp_connection& connection,
                                   server_shard& own_shard, upgraded_request request,
                                   const websocket_options& options, websocket_agreement agreement)
    : websocket_protocol(connection, own_shard, std::move(request), options, std::move(agreement)),
      served_function(static_cast<websocket_core&>(*this)),
      work(own_shard.loop(), call(keep(serve))) {
  work::stop = stop_source_.get_token();
}

// Keeps a function to which its coroutine may refer.
served_websocket::function& served_websocket::keep(function& serve) {
  if (!serve.has_state()) return serve;
  return extras().serve = std::move(serve);
}

served_websocket::~served_websocket() { leave(); }

void served_websocket::drop() noexcept {
  if (!has_ended()) end_now(websocket_errc::ended);
}

// --- Receiving ---

void served_websocket::on_message(io::input& input) {
  if (has_held_bytes()) {
    hold(input);
    return receive_now();
  }
  take_input(input);
  if (!has_ended() && !input.empty()) hold(input);
}

void served_websocket::hold(io::input& input) {
  auto& bytes = extras().held;
  if (bytes == nullptr) bytes = std::make_unique<io::buffer>(io::buffer({.prepend = 0}));
  take_spare_buffer(*bytes);
  bytes->append(input.bytes());
  input.consume_all();
  if (bytes->size() < max_held || served_.is_input_paused) return;
  served_.is_input_paused = true;
  tcp().pause_reading();
}

void served_websocket::receive_held() {
  io::input nothing;
  receive(has_held_bytes() ? static_cast<io::input&>(*held()) : nothing);
  if (has_held_bytes() || has_ended()) return;
  if (held() != nullptr) keep_spare_buffer(*held());
  if (served_.is_input_paused) tcp().resume_reading();
  served_.is_input_paused = false;
  if (served_.has_peer_ended) end(websocket_errc::ended);
}

// The bytes come by themselves. Those that are held are dropped if close() receives, by the turn
// that runs if there is one.
std::optional<task<>> served_websocket::receive_next() {
  if (drops_messages() && !is_in_turn()) receive_now();
  return std::nullopt;
}

// The stop of the function follows the end of the socket or of the connection, both of which end
// receives. If bytes are held then, the receive returns their messages before the end.
bool served_websocket::ends_before(const task_context& context) const noexcept {
  return context.stop == stop_source_.get_token() && context.where == work::where &&
         !stop_source_.stop_requested();
}

// --- Sending ---

bool served_websocket::is_output_high() const noexcept {
  return tcp().pending_output() >= shard().core().options.tcp.connections.high_water;
}

std::optional<task<>> served_websocket::finish_send(std::size_t size) {
  sent_in_a_row_ += static_cast<std::uint32_t>(std::min<std::size_t>(size, max_sent_in_a_row));
  if (sent_in_a_row_ < max_sent_in_a_row && !is_output_high()) return std::nullopt;
  return await_output();
}

task<> served_websocket::await_output() {
  sent_in_a_row_ = 0;
  if (!has_ended() && !is_output_high()) co_await yield();
  while (!has_ended() && is_output_high()) {
    auto waiting = await_change();
    co_await std::move(waiting);
  }
  if (served_.has_left) {
    throw std::system_error(make_error_code(websocket_errc::closed), "http::websocket: send");
  }
}

void served_websocket::on_low_water() {
  signal_change();
  on_output_taken();
}

// --- The function ---

void served_websocket::deliver_open() {
  shard().core().begin_work();
  served_.phase = phase::running;
  start();
}

void served_websocket::on_work_ended() noexcept {
  served_.phase = phase::ended;
  if (!is_in_turn()) conclude_work();
}

void served_websocket::on_turn_ended() noexcept {
  if (served_.phase == phase::ended) return conclude_work();
  if (has_ended()) end_receive();
}

// Closes the socket after the function, and makes the records.
void served_websocket::conclude_work() noexcept {
  served_.phase = phase::concluded;
  const std::shared_ptr<server_core> core = shard().core().shared_from_this();
  std::exception_ptr error = take_error();
  // A stop that was requested because the client has left is no error of the function.
  if (error && (is_of_peer(error) ||
                (stop_source_.stop_requested() && error == gyre::detail::cancellation()))) {
    error = nullptr;
  }
  if (!served_.has_left && has_ended()) {
    conclude(error, /*has_left=*/false);
    close_when_sent();
  } else if (!served_.has_left && error) {
    fail_socket(error);
  } else if (!served_.has_left) {
    begin_to_close(stop_source_.stop_requested() ? close_code::going_away : close_code::normal);
    receive_now();
  }
  if (served_.is_released) delete this;
  core->end_work();
}

void served_websocket::request_stop() noexcept {
  if (served_.phase == phase::running) stop_source_.request_stop();
}

// --- The end ---

void served_websocket::conclude(const std::exception_ptr& failure, bool has_left) noexcept {
  if (served_.is_recorded || (runs() && !has_left)) return;
  served_.is_recorded = true;
  websocket_protocol::conclude(failure, has_left);
}

void served_websocket::close_when_sent() noexcept {
  if (!runs()) websocket_protocol::close_when_sent();
}

// Messages that came before the end are still received.
void served_websocket::on_peer_ended() {
  if (has_held_bytes()) {
    served_.has_peer_ended = true;
  } else {
    end_now(websocket_errc::ended);
  }
  if (!shard().core().options.serve_half_closed) request_stop();
}

void served_websocket::on_closed() noexcept {
  served_.has_left = true;
  on_disconnected();
  conclude(nullptr, /*has_left=*/true);
  end_receive();
  request_stop();
}

void served_websocket::release() noexcept {
  if (!runs()) {
    delete this;
    return;
  }
  served_.is_released = served_.has_left = true;
  leave();
  conclude(nullptr, /*has_left=*/true);
  signal_change();
  note_stop_of_receive();
  schedule_turn();  // for a receive that no stop callback ends
  request_stop();
}

}  // namespace gyre::http::detail
