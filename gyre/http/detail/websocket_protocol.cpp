// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_protocol.hpp>

#include <gyre/http/detail/exchange.hpp>
#include <gyre/http/websocket_error.hpp>

#include <utility>

namespace gyre::http::detail {

websocket_protocol::websocket_protocol(net::tcp_connection& tcp, server_shard& shard,
                                       upgraded_request request, const websocket_options& options,
                                       websocket_agreement agreement, websocket_face face)
    : websocket_driver(shard.loop().recent_time(), websocket_role::server, options,
                       std::move(agreement), face),
      tcp_(tcp),
      shard_(shard.core().shared_from_this(), &shard),
      request_(std::move(request)) {}

void websocket_protocol::leave() noexcept {
  if (shard_->output_owner == this) {
    shard_->output.clear();
    shard_->output_owner = nullptr;
  }
  // If the socket has not ended, the server was destroyed, after which it calls no function of the
  // program.
  if (!has_ended()) request_.described.reset();
  abandon();
}

void websocket_protocol::on_peer_ended() { end(websocket_errc::ended); }

void websocket_protocol::begin_stop() noexcept {
  shard_->stopping.request_stop();
  begin_going_away();
}

void websocket_protocol::deliver_rest() noexcept {
  tcp_.pause_reading();
  tcp_.resume_reading();
}

// Sends what waits in the shard, followed by `bytes`.
void websocket_protocol::flush(std::span<const std::byte> bytes) {
  const bool has_output = shard_->output_owner == this && !shard_->output.empty();
  if (request_.described != nullptr) {
    request_.described->written += bytes.size() + (has_output ? shard_->output.size() : 0);
  }
  if (!has_output) {
    if (!bytes.empty()) tcp_.send(bytes);
  } else if (bytes.empty()) {
    tcp_.send(shard_->output.bytes());
  } else {
    tcp_.send({shard_->output.bytes(), bytes});
  }
  if (shard_->output_owner != this) return;
  shard_->output_owner = nullptr;
  shard_->drop_output();
}

void websocket_protocol::flush_output() noexcept {
  try {
    flush({});
  } catch (...) {
    tcp_.abort();
  }
  if (!is_in_turn()) update_reading();
}

void websocket_protocol::conclude(const std::exception_ptr& failure, bool has_left) noexcept {
  const bool is_there = !has_left && tcp_.can_send();
  exchange::conclude_upgraded(tcp_, *shard_, request_, is_there ? failure : nullptr, has_left);
}

void websocket_protocol::close_when_sent() noexcept {
  // The TCP server closes a connection that waits too long while it stops.
  tcp_.close_when_sent();
  if (!shard_->core().is_draining()) return;
  const duration limit = shard_->core().options.tcp.connections.close_timeout;
  tcp_.close(limit, duration::max());
}

}  // namespace gyre::http::detail
