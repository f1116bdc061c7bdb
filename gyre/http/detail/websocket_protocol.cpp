// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_protocol.hpp>

#include <gyre/http/detail/exchange.hpp>
#include <gyre/http/websocket_error.hpp>

#include <utility>

namespace gyre::http::detail {

template <class Face>
void websocket_protocol<Face>::leave() noexcept {
  if (shard_->output_owner == this) {
    shard_->output.clear();
    shard_->output_owner = nullptr;
  }
  // If the socket has not ended, the server was destroyed, after which it calls no function of the
  // program.
  if (!this->has_ended()) request_.described.reset();
  this->abandon();
}

template <class Face>
void websocket_protocol<Face>::on_peer_ended() {
  this->end(websocket_errc::ended);
}

template <class Face>
void websocket_protocol<Face>::begin_stop() noexcept {
  shard_->stopping.request_stop();
  this->begin_going_away();
}

template <class Face>
void websocket_protocol<Face>::deliver_rest() noexcept {
  tcp_.pause_reading();
  tcp_.resume_reading();
}

// Sends what waits in the shard, followed by `bytes`.
template <class Face>
void websocket_protocol<Face>::flush(std::span<const std::byte> bytes) {
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

template <class Face>
void websocket_protocol<Face>::flush_output() noexcept {
  try {
    flush({});
  } catch (...) {
    tcp_.abort();
  }
  if (!this->is_in_turn()) this->update_reading();
}

template <class Face>
void websocket_protocol<Face>::conclude(const std::exception_ptr& failure, bool has_left) noexcept {
  const bool is_there = !has_left && tcp_.can_send();
  exchange::conclude_upgraded(tcp_, *shard_, request_, is_there ? failure : nullptr, has_left);
}

template <class Face>
void websocket_protocol<Face>::close_when_sent() noexcept {
  // The TCP server closes a connection that waits too long while it stops.
  tcp_.close_when_sent();
  if (!shard_->core().is_draining()) return;
  const duration limit = shard_->core().options.tcp.connections.close_timeout;
  tcp_.close(limit, duration::max());
}

template class websocket_protocol<called_websocket>;
template class websocket_protocol<websocket_core>;

}  // namespace gyre::http::detail
