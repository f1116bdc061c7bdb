// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/server_core.hpp>

#include <atomic>
#include <memory>
#include <new>
#include <utility>

namespace gyre::net {

using std::memory_order_relaxed;

void tcp_server::core::shard::catch_up() {
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  hold(detail::acceptor::hold::full, core_.is_full());
  core_.call_one_done();
}

void tcp_server::core::shard::open(socket listening) {
  if (stopping_) return;
  const tcp_server_options& options = core_.options;
  auto opened = std::make_unique<detail::acceptor>(
      loop(), *this, std::move(listening),
      detail::acceptor::settings{.ahead = options.max_connections == tcp_server_options::unlimited,
                                 .backoff = options.accept_backoff,
                                 .backoff_limit = options.accept_backoff_limit});
  for (const auto hold : {detail::acceptor::hold::paused, detail::acceptor::hold::full}) {
    opened->set_hold(hold, holds_.has(hold));
  }
  opened->open();
  acceptors_.push_back(std::move(opened));
}

void tcp_server::core::shard::hold(detail::acceptor::hold why, bool held) noexcept {
  held ? holds_.insert(why) : holds_.erase(why);
  for (auto& each : acceptors_) each->set_hold(why, held);
}

void tcp_server::core::shard::accepted(unique_fd connection, const endpoint& peer) {
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  core_.accepted_.fetch_add(1, memory_order_relaxed);
  const std::size_t taken = core_.take_slot(*this);
  if (taken >= core_.options.max_connections) hold(detail::acceptor::hold::full, core_.is_full());
  if (taken > core_.options.max_connections) {
    count_refused();
    core_.release_slot();
    return;
  }
  shard& chosen = core_.choose_for(peer, *this);
  chosen.assigned.fetch_add(1, memory_order_relaxed);
  if (&chosen == this) return adopt_accepted(std::move(connection), peer);
  try {
    chosen.loop().post([target = core_.shared(chosen), connection = std::move(connection),
                        peer]() mutable { target->adopt_accepted(std::move(connection), peer); });
  } catch (const std::bad_alloc&) {
    count_refused();
    chosen.release_assigned();
  }
}

void tcp_server::core::shard::adopt_accepted(unique_fd connection, const endpoint& peer) {
  // After the server's end the other loops may be gone, to which releasing the slot would post.
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  const auto& trusted = core_.options.proxy_protocol.trusted;
  if (!trusted || stopping_) return serve(std::move(connection), peer);
  bool is_proxy = false;
  try {
    is_proxy = trusted(peer);
  } catch (...) {
    count_refused();
    release_assigned();
    throw;
  }
  if (!is_proxy) return serve(std::move(connection), peer);
  if (begin_handshake(connection, peer)) return;
  count_refused();
  release_assigned();
}

bool tcp_server::core::shard::begin_handshake(unique_fd& connection,
                                              const endpoint& peer) noexcept {
  try {
    detail::proxy_handshake::owner& self = *this;  // emplace_back() may not see the base
    handshakes_.emplace_back(loop(), self, std::move(connection), peer,
                             core_.options.proxy_protocol);
    return true;
  } catch (...) {  // no memory, or too many descriptors watched
    return false;
  }
}

void tcp_server::core::shard::handshake_ended(detail::proxy_handshake& ended,
                                              std::optional<proxy_header> header) {
  unique_fd connection = ended.release();
  const endpoint proxy = ended.proxy();
  handshakes_.remove_if([&](const detail::proxy_handshake& each) { return &each == &ended; });
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  if (!header) {
    connection.reset();
    count_refused();
    return release_assigned();
  }
  const endpoint peer = header->source.is_ip() ? header->source : proxy;
  proxy_header_ = std::move(header);
  serve(std::move(connection), peer);
}

void tcp_server::core::shard::connection_begins(tcp_connection& begun) {
  if (!proxy_header_) return;
  begun.context() = std::move(*proxy_header_);
  proxy_header_.reset();
}

// Limits per address apply to the client's address, which behind a proxy is known only now.
void tcp_server::core::shard::serve(unique_fd connection, const endpoint& peer) {
  if (!core_.address_limits_.admit(peer, loop().now())) {
    connection.reset();
    proxy_header_.reset();
    core_.limited_.fetch_add(1, memory_order_relaxed);
    count_refused();
    return release_assigned();
  }
  const std::uint64_t id = core_.next_id_.fetch_add(1, memory_order_relaxed) + 1;
  if (!stopping_ && adopt(std::move(connection), peer, id)) return;
  proxy_header_.reset();
  refuse(peer);
  release_assigned();
}

void tcp_server::core::shard::refuse(const endpoint& peer) noexcept {
  count_refused();
  core_.address_limits_.release(peer);
}

void tcp_server::core::shard::connection_ends(tcp_connection& ended) noexcept {
  core_.address_limits_.release(ended.peer_endpoint());
}

void tcp_server::core::shard::count_refused() noexcept {
  core_.refused_.fetch_add(1, memory_order_relaxed);
}

void tcp_server::core::shard::accepting_paused(std::error_code error, bool first,
                                               std::size_t refused) {
  const detail::callback_gate::pass passing(gate());
  core_.accept_errors_.fetch_add(1, memory_order_relaxed);
  core_.refused_.fetch_add(refused, memory_order_relaxed);
  if (passing && first && core_.handlers.accept_error) core_.handlers.accept_error(error);
}

void tcp_server::core::shard::release_assigned() noexcept {
  assigned.fetch_sub(1, memory_order_relaxed);
  core_.release_slot();
}

void tcp_server::core::shard::connection_gone() {
  release_assigned();
  if (stopping_) stop_if_empty();
}

void tcp_server::core::shard::stop(std::chrono::nanoseconds timeout) {
  stopping_ = true;
  const std::size_t arriving = handshakes_.size();
  close_others();
  for (std::size_t i = 0; i < arriving; ++i) release_assigned();
  for_each([timeout](tcp_connection& each) { each.close(timeout, timeout); });
  stop_if_empty();
}

void tcp_server::core::shard::stop_if_empty() {
  if (!empty() || std::exchange(stopped_, true)) return;
  core_.shard_stopped();
}

void tcp_server::core::shard::close_others() noexcept {
  for (auto& each : acceptors_) each->close();
  handshakes_.clear();
}

}  // namespace gyre::net
