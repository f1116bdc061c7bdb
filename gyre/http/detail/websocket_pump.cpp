// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_pump.hpp>

#include <gyre/http/websocket_broadcast.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/shielded.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gyre::http::detail {
namespace {

// A message that waits counts this much besides its bytes.
constexpr std::size_t message_cost = 40;
// An idle connection keeps a queue of this many bytes.
constexpr std::size_t max_idle_queue = std::size_t{4} << 10;

}  // namespace

websocket_pump::websocket_pump(websocket& socket, websocket_handlers handlers,
                               std::size_t output_limit)
    : socket_(socket), callbacks_(std::move(handlers)), output_limit_(output_limit) {}

bool websocket_pump::is_open() const noexcept {
  return !closing_ && !exceeds_limit_ && socket_.is_open();
}

// --- Sending ---

bool websocket_pump::send(websocket_message message) {
  const std::size_t size = message.bytes.size();
  if (!may_queue(size)) return false;
  queue_.messages.push_back({.size = size, .kind = message.kind});
  try {
    queue_.bytes.append(message.bytes);
  } catch (...) {
    queue_.messages.pop_back();
    throw;
  }
  count_output(size);
  return true;
}

bool websocket_pump::send(prepared_message message) {
  const std::size_t size = message.bytes().size();
  if (!may_queue(size)) return false;
  queue_.messages.push_back({.size = size, .prepared = std::move(message)});
  count_output(size);
  return true;
}

// Whether a message of `size` bytes may be queued. Ends the connection if the queue is too long.
bool websocket_pump::may_queue(std::size_t size) noexcept {
  if (!is_open() || tasks_ == nullptr) return false;
  const std::size_t room = output_limit_ - std::min(output_limit_, pending_output_);
  // A message of any size may be sent when none waits.
  if (pending_output_ == 0 || (room >= message_cost && size <= room - message_cost)) return true;
  exceeds_limit_ = true;
  tasks_->request_stop();
  return false;
}

// Called when a message of `size` bytes was queued.
void websocket_pump::count_output(std::size_t size) noexcept {
  pending_output_ += size + message_cost;
  update_reading();
  must_write_.set();
}

task<> websocket_pump::write() {
  for (;;) {
    const bool has_output = !queue_.messages.empty();
    while (!queue_.messages.empty()) {
      auto sending = send_queue();
      co_await std::move(sending);
    }
    if (closing_) {
      co_await std::move(*closing_);
      tasks_->request_stop();
      co_return;
    }
    if (has_output) call([this] { callbacks_.write_complete(*this); });
    co_await must_write_.wait();
  }
}

// Sends the messages that wait. Drops them if the socket has begun to close.
task<> websocket_pump::send_queue() {
  std::swap(queue_, sending_);
  std::span<const std::byte> bytes = sending_.bytes.bytes();
  for (queued_message& each : sending_.messages) {
    task<> sending;
    if (each.prepared) {
      sending = socket_.send(*std::exchange(each.prepared, std::nullopt));
    } else {
      sending = socket_.send({.kind = each.kind, .bytes = bytes.first(each.size)});
      bytes = bytes.subspan(each.size);
    }
    auto result = as_expected(std::move(sending));
    const auto sent = co_await std::move(result);
    if (!sent && sent.error() != websocket_errc::closed) throw std::system_error(sent.error());
    pending_output_ -= each.size + message_cost;
    update_reading();
  }
  sending_.messages.clear();
  sending_.bytes.clear();
  if (sending_.bytes.capacity() > max_idle_queue ||
      sending_.messages.capacity() * sizeof(queued_message) > max_idle_queue) {
    sending_ = {};
  }
}

void websocket_pump::subscribe_to(websocket_broadcast& broadcast) {
  if (tasks_ != nullptr) tasks_->spawn(broadcast.forward_to(socket_), "websocket broadcast");
}

void websocket_pump::begin_close(close_code code, std::string_view reason) {
  task<> closing = socket_.close(code, reason);  // checks the arguments
  if (closing_) return;
  closing_ = std::move(closing);
  update_reading();
  must_write_.set();
}

// --- Receiving ---

void websocket_pump::pause_reading() noexcept {
  is_paused_ = true;
  update_reading();
}

void websocket_pump::resume_reading() noexcept {
  is_paused_ = false;
  update_reading();
}

void websocket_pump::update_reading() noexcept {
  const bool is_full = pending_output_ > max_output_while_reading(output_limit_);
  if (closing_ || !(is_paused_ || is_full)) {
    if (!may_read_.is_set()) may_read_.set();
  } else if (may_read_.is_set()) {
    may_read_.reset();
  }
}

task<> websocket_pump::read() {
  for (;;) {
    co_await may_read_.wait();
    auto receiving = socket_.receive();
    const auto message = co_await std::move(receiving);
    if (!message) co_return;
    // The program may have paused receiving meanwhile, or closed the socket.
    co_await may_read_.wait();
    if (!closing_) call([&] { callbacks_.message(*this, *message); });
  }
}

// --- The life of the connection ---

template <class Call>
void websocket_pump::call(Call handler) {
  try {
    handler();
  } catch (...) {
    failure_ = gyre::detail::caught_error();
    throw;
  }
}

task<> websocket_pump::serve(scope& tasks) {
  tasks_ = &tasks;
  tasks.spawn(write(), "websocket output");
  call([this] { callbacks_.open(*this); });
  auto reading = read();
  co_await std::move(reading);
  tasks.request_stop();
}

std::error_code websocket_pump::reason_of_end(const std::exception_ptr& error) const noexcept {
  if (failure_) return io::errc::aborted;
  if (exceeds_limit_) return io::errc::output_limit;
  if (socket_.close_status()) return {};
  if (!error || gyre::detail::is_cancelled(error)) return websocket_errc::ended;
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& failure) {
    return failure.code();
  } catch (...) {
    return std::make_error_code(std::errc::not_enough_memory);  // no other failure is possible
  }
}

task<> websocket_pump::run() {
  std::exception_ptr error;
  try {
    auto serving = with_scope([this](scope& tasks) { return serve(tasks); });
    co_await std::move(serving);
  } catch (...) {
    error = gyre::detail::caught_error();
  }
  tasks_ = nullptr;
  if (exceeds_limit_) {
    auto closing =
        as_result(shielded(socket_.close(close_code::policy_violation, "reads too slowly")));
    co_await std::move(closing);
  }
  try {
    callbacks_.close(*this, reason_of_end(error));
  } catch (...) {
    if (!failure_) failure_ = gyre::detail::caught_error();
  }
  if (failure_) co_await gyre::detail::fail_with(failure_);
  if (error == gyre::detail::cancellation()) co_await gyre::detail::fail_with(error);
}

task<> run_handlers(websocket& socket, websocket_handlers handlers, std::size_t output_limit) {
  websocket_pump connection(socket, std::move(handlers), output_limit);
  auto running = connection.run();
  co_await std::move(running);
}

}  // namespace gyre::http::detail
