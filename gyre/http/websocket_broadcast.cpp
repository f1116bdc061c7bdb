// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/websocket_broadcast.hpp>

#include <gyre/http/detail/broadcast_target.hpp>
#include <gyre/http/detail/websocket_broadcast_core.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/task/as_result.hpp>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::http {
namespace {

using core_pointer = std::shared_ptr<detail::websocket_broadcast_core>;

// Messages that a subscriber gets by one send, at most.
constexpr std::size_t max_batch = 32;

// Counts a subscriber for the life of a coroutine, even if that is destroyed.
class subscriber_count {
 public:
  explicit subscriber_count(core_pointer core) noexcept : core_(std::move(core)) {
    core_->subscribers.fetch_add(1, std::memory_order_relaxed);
  }
  subscriber_count(subscriber_count&& other) noexcept = default;
  subscriber_count& operator=(subscriber_count&&) = delete;
  ~subscriber_count() {
    if (core_ != nullptr) core_->subscribers.fetch_sub(1, std::memory_order_relaxed);
  }
  detail::websocket_broadcast_core& core() const noexcept { return *core_; }

 private:
  core_pointer core_;
};

// The target of forward_to() for a websocket, whose sends are awaited.
class websocket_target final : public detail::broadcast_target {
 public:
  explicit websocket_target(websocket& socket) noexcept : socket_(socket) {}

  bool is_open() const noexcept override { return socket_.is_open(); }
  task<> send_all(std::span<const prepared_message> messages) override {
    return socket_.send_all(messages);
  }
  task<> close(close_code code, std::string_view reason) override {
    return socket_.close(code, reason);
  }

 private:
  websocket& socket_;
};

task<> forward(subscriber_count subscriber, broadcast_receiver<prepared_message> receiver,
               std::shared_ptr<detail::broadcast_target> target) {
  detail::broadcast_target& socket = *target;
  detail::websocket_broadcast_core& core = subscriber.core();
  std::vector<prepared_message> batch;
  for (;;) {
    batch.clear();
    std::uint64_t missed = 0;
    auto first = co_await receiver.receive();
    if (!first) co_return;
    missed += first->missed;
    batch.push_back(std::move(first->value));
    while (batch.size() < max_batch) {
      auto next = receiver.try_receive();
      if (!next) break;
      missed += next->missed;
      batch.push_back(std::move(next->value));
    }
    if (!socket.is_open()) co_return;
    if (missed != 0) {
      core.lost.fetch_add(missed, std::memory_order_relaxed);
      if (core.options.policy == slow_subscriber::disconnected) {
        core.disconnected.fetch_add(1, std::memory_order_relaxed);
        co_await socket.close(close_code::policy_violation, "reads too slowly");
        co_return;
      }
    }
    auto sending = as_result(socket.send_all(batch));
    const auto sent = co_await std::move(sending);
    if (!sent) {
      if (!socket.is_open()) co_return;
      std::rethrow_exception(sent.error());
    }
    core.deliveries.fetch_add(batch.size(), std::memory_order_relaxed);
  }
}

}  // namespace

websocket_broadcast::websocket_broadcast(websocket_broadcast_options options) {
  detail::check_compression(options.compression, "http::websocket_broadcast");
  core_ = std::make_shared<detail::websocket_broadcast_core>(options);
}

websocket_broadcast::~websocket_broadcast() { close(); }

void websocket_broadcast::send_text(std::string_view text) {
  send(prepared_message::text(text, core_->options.compression));
}

void websocket_broadcast::send_binary(std::span<const std::byte> bytes) {
  send(prepared_message::binary(bytes, core_->options.compression));
}

void websocket_broadcast::send(prepared_message message) {
  core_->messages.send(std::move(message));
  core_->sent.fetch_add(1, std::memory_order_relaxed);
}

task<> websocket_broadcast::forward_to(websocket& socket) {
  return forward_to(std::make_shared<websocket_target>(socket));
}

task<> websocket_broadcast::forward_to(std::shared_ptr<detail::broadcast_target> target) {
  return forward(subscriber_count(core_), core_->messages.subscribe(), std::move(target));
}

void websocket_broadcast::close() noexcept { core_->messages.close(); }

websocket_broadcast_metrics websocket_broadcast::metrics() const noexcept {
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  return {.subscribers = read(core_->subscribers),
          .messages = read(core_->sent),
          .deliveries = read(core_->deliveries),
          .lost = read(core_->lost),
          .disconnected = read(core_->disconnected)};
}

void write_metrics(metrics::exposition& output, const websocket_broadcast_metrics& counts) {
  const auto& [subscribers, messages, deliveries, lost, disconnected] = counts;
  output.add_gauge("gyre_websocket_broadcast_subscribers", "Present subscribers.", subscribers);
  output.add_counter("gyre_websocket_broadcast_messages_total", "Messages that were sent.",
                     messages);
  output.add_counter("gyre_websocket_broadcast_deliveries_total",
                     "Messages passed to the connections of subscribers.", deliveries);
  output.add_counter("gyre_websocket_broadcast_lost_total",
                     "Messages that slow subscribers have lost.", lost);
  output.add_counter("gyre_websocket_broadcast_disconnected_total",
                     "Slow subscribers that were disconnected.", disconnected);
}

}  // namespace gyre::http
