// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/server_shard.hpp>

#include <gyre/io/descriptor.hpp>
#include <gyre/net/detail/listener.hpp>
#include <gyre/net/detail/proxy_layer.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

namespace gyre::net::detail {

using std::memory_order_relaxed;

/// Accepts the connections of one listening socket for a shard. A call to the shard may destroy the
/// acceptor.
///
/// | state     | first hold | no hold   | accept succeeded | accept failed | pause over    |
/// |-----------|------------|-----------|------------------|---------------|---------------|
/// | accepting | held       | -         | calls the shard  | pausing       | -             |
/// | held      | -          | accepting | calls the shard  | pausing       | -             |
/// | pausing   | pausing    | pausing   | calls the shard  | pausing       | as holds say  |
///
/// The accept_policy decides on pauses. A request that is being cancelled may still complete.
///
/// Thread-safety: none; belongs to the loop's thread.
class server_shard::acceptor {
 public:
  /// `listening_socket` must listen already. Throws what attaching throws.
  acceptor(server_shard& receiver, socket listening_socket, bool is_own)
      : shard_(receiver),
        is_own_(is_own),
        descriptor_(receiver.loop(), listening_socket.release(), io::handle_kind::socket),
        // Accepts ahead only if the socket is the server's own and connections are not limited: a
        // busy loop must not keep connections from others, and the server must not exceed its
        // limit.
        request_(*this,
                 is_own && receiver.core_.options.max_connections == tcp_server_options::unlimited),
        retry_(receiver.loop(), [this] { start_or_cancel(); }),
        policy_(receiver.core_.options.accept_backoff,
                receiver.core_.options.accept_backoff_limit) {
    start_or_cancel();
  }
  acceptor(const acceptor&) = delete;
  acceptor& operator=(const acceptor&) = delete;

  void start_or_cancel() noexcept {
    const bool may_accept = shard_.holds_.empty() && !retry_.active();
    const bool is_accepting = request_.under_way();
    if (!may_accept && is_accepting) descriptor_.cancel(request_);
    // A repeating request does not complete at once.
    if (may_accept && !is_accepting) static_cast<void>(descriptor_.start(request_));
  }

  /// Whether the socket's queue holds no connection that only this server can accept.
  bool is_drained() noexcept {
    return !is_own_ || shard_.holds_.has(server_core::hold::paused) ||
           !descriptor_.io().has_arrivals(descriptor_.handle());
  }
  bool is_accepting() const noexcept { return request_.under_way(); }

 private:
  struct accept_any final : io::accept_request {
    accept_any(acceptor& owner, bool accepts_ahead) noexcept
        : accept_request(owner.descriptor_.handle(), &acceptor::on_accepted,
                         io::repeat::until_cancelled, accepts_ahead),
          self(&owner) {}
    acceptor* self;
  };

  static void on_accepted(io::request& request, io::result result) {
    auto& accept_operation = static_cast<accept_any&>(request);
    acceptor& self = *accept_operation.self;
    if (!result) return self.pause(result.error());
    self.policy_.reset();
    unique_fd connection(result.fd());
    self.shard_.accepted(std::move(connection), peer_of(accept_operation));
  }
  void pause(std::error_code error) {
    const auto pause = policy_.begin_pause(descriptor_.fd(), error.value());
    retry_.start_after(pause.length);
    start_or_cancel();
    shard_.on_accepting_paused(error, pause);
  }

  server_shard& shard_;
  const bool is_own_;
  io::descriptor descriptor_;
  accept_any request_;
  timer retry_;  // the retry timer is active while accepting pauses
  accept_policy policy_;
};

// --- The shard ---

server_shard::server_shard(server_core& core, event_loop& loop)
    : connection_group(loop, core.handlers, core.options.connections, core.limits_of_shard()),
      core_(core) {}
server_shard::~server_shard() = default;

void server_shard::apply_server_changes() {
  const callback_gate::pass gate_pass(gate());
  if (!gate_pass) return;
  set_hold(server_core::hold::full, core_.is_full());
  if (stage_ != stop_stage::none) drain_acceptors();
  core_.call_next_stop_callback();
}

void server_shard::open(socket listening_socket, bool is_own) {
  if (stage_ == stop_stage::none)
    acceptors_.emplace_back(*this, std::move(listening_socket), is_own);
}

void server_shard::set_hold(server_core::hold reason, bool is_held) noexcept {
  is_held ? holds_.insert(reason) : holds_.erase(reason);
  for (acceptor& target : acceptors_) target.start_or_cancel();
}

void server_shard::accepted(unique_fd connection, const endpoint& peer,
                            std::unique_ptr<released_connection> released_state) {
  const callback_gate::pass gate_pass(gate());
  if (!gate_pass) return;
  if (stage_ != stop_stage::none) core_.post_server_changes(*this);
  core_.accepted_count_.fetch_add(1, memory_order_relaxed);
  const std::size_t count = core_.take_slot(*this);
  if (count >= core_.options.max_connections) set_hold(server_core::hold::full, core_.is_full());
  if (count > core_.options.max_connections) {
    core_.refused_count_.fetch_add(1, memory_order_relaxed);
    return core_.release_slot();
  }
  server_shard& shard = core_.choose_for(peer, *this);
  shard.assigned_connections.fetch_add(1, memory_order_relaxed);
  if (&shard == this) return adopt_accepted(std::move(connection), peer, std::move(released_state));
  try {
    shard.loop().post([target = core_.shared(shard), connection = std::move(connection), peer,
                       released_state = std::move(released_state)]() mutable {
      target->adopt_accepted(std::move(connection), peer, std::move(released_state));
    });
  } catch (const std::bad_alloc&) {
    shard.refuse_assigned();
  }
}

void server_shard::adopted(unique_fd connection, const endpoint& peer,
                           std::unique_ptr<released_connection> released_state) {
  if (stage_ == stop_stage::none) {
    return accepted(std::move(connection), peer, std::move(released_state));
  }
  core_.accepted_count_.fetch_add(1, memory_order_relaxed);
  core_.refused_count_.fetch_add(1, memory_order_relaxed);
}

void server_shard::adopt_accepted(unique_fd connection, const endpoint& peer,
                                  std::unique_ptr<released_connection> released_state) {
  const callback_gate::pass gate_pass(gate());
  // The server has ended. The release of the slot would post to other loops, which may be gone.
  if (!gate_pass) return;
  if (released_state != nullptr) {
    if (!admit_peer(peer)) return;  // the early return closes `connection`
    return begin_connection(std::move(connection), peer, std::move(released_state->layer),
                            released_state->received.bytes(), true);
  }
  const auto& is_trusted = core_.options.proxy_protocol.trusted;
  if (!is_trusted || stage_ == stop_stage::grace_over)
    return serve_connection(std::move(connection), peer);
  bool is_proxy = false;
  try {
    is_proxy = is_trusted(peer);
  } catch (...) {
    refuse_assigned();
    throw;
  }
  if (!is_proxy) return serve_connection(std::move(connection), peer);
  try {
    // Descriptors that come after the header must stay in the socket.
    using extent = proxy_layer::extent;
    const bool may_bring_descriptors = !peer.is_ip() && options().fd_limit > 0;
    auto header = std::make_unique<proxy_layer>(
        core_.options.proxy_protocol, may_bring_descriptors ? extent::header_only : extent::any);
    proxy_layer* const proxy = header.get();
    open_layer(std::move(connection), {.peer = peer, .proxy = proxy}, std::move(header));
  } catch (...) {  // memory is exhausted, or too many descriptors are watched
    refuse_assigned();
  }
}

void server_shard::on_header_ended(unique_fd connection, const endpoint& proxy, proxy_layer& layer,
                                   std::error_code reason) {
  if (reason) {
    connection.reset();
    return refuse_assigned();
  }
  proxy_header_ = layer.take_header();
  const endpoint peer = proxy_header_->source.is_ip() ? proxy_header_->source : proxy;
  serve_connection(std::move(connection), peer, layer.unread());
}

void server_shard::on_connection_begun(tcp_connection& connection) {
  if (!proxy_header_) return;
  connection.context() = std::move(*proxy_header_);
  proxy_header_.reset();
}

// Counts the connection in the limits of its address. If the address is at a limit, counts the
// connection as refused, and returns false.
bool server_shard::admit_peer(const endpoint& peer) noexcept {
  if (core_.address_limits_.admit(peer, loop().recent_time())) return true;
  core_.limited_count_.fetch_add(1, memory_order_relaxed);
  refuse_assigned();
  return false;
}

// Admits the connection only now, because limits per address apply to the client's address, which
// comes in the header of a proxy.
void server_shard::serve_connection(unique_fd connection, const endpoint& peer,
                                    std::span<const std::byte> early_bytes) {
  if (!admit_peer(peer)) {
    connection.reset();
    proxy_header_.reset();
    return;
  }
  if (core_.options.transport == nullptr || stage_ == stop_stage::grace_over) {
    return begin_connection(std::move(connection), peer, nullptr, early_bytes);
  }
  // Takes the header before code of the program runs, which may throw, so that no other connection
  // can get the header.
  opening_connection arrival{.peer = peer, .header = std::exchange(proxy_header_, std::nullopt)};
  std::unique_ptr<layer> new_layer;
  std::exception_ptr error;
  try {
    new_layer = make_layer(*core_.options.transport, {});
    new_layer->offer_protocols(core_.options.application_protocols);
    new_layer->feed(early_bytes);
    new_layer->keep_unread();
    if (!new_layer->is_established()) {
      return open_layer(std::move(connection), std::move(arrival), std::move(new_layer));
    }
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) {
    proxy_header_ = std::move(arrival.header);
    return begin_connection(std::move(connection), peer, std::move(new_layer));
  }
  connection.reset();
  core_.address_limits_.release(peer);
  refuse_assigned();
  report_no_layer(peer, error);
}

void server_shard::report_no_layer(const endpoint& peer, const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::system_error& error) {
    core_.failed_handshakes_.fetch_add(1, memory_order_relaxed);
    core_.options.transport->handshake_failed(peer, error.code(), nullptr);
  } catch (const std::bad_alloc&) {
    return;  // the connection was counted as refused
  }
}

void server_shard::open_layer(unique_fd connection, opening_connection&& arrival,
                              std::unique_ptr<layer> protocol) {
  opening_connection& entry = opening_connections_.emplace_back(std::move(arrival));
  try {
    entry.layer_start = std::make_unique<layer_opening>(
        *this, std::move(connection), std::move(protocol),
        [this, &entry](std::error_code reason) { on_opening_ended(entry, reason); });
  } catch (...) {
    opening_connections_.pop_back();
    throw;
  }
  entry.layer_start->start();
}

void server_shard::on_opening_ended(opening_connection& arrival, std::error_code reason) {
  unique_fd connection = arrival.layer_start->release();
  std::unique_ptr<layer> protocol = arrival.layer_start->take_layer();
  const endpoint peer = arrival.peer;
  proxy_layer* const proxy = arrival.proxy;
  std::optional<proxy_header> header = std::move(arrival.header);
  opening_connections_.remove_if(
      [&](const opening_connection& candidate) { return &candidate == &arrival; });
  const callback_gate::pass gate_pass(gate());
  if (!gate_pass) return;
  if (proxy != nullptr) return on_header_ended(std::move(connection), peer, *proxy, reason);
  if (!reason) {
    proxy_header_ = std::move(header);
    return begin_connection(std::move(connection), peer, std::move(protocol));
  }
  connection.reset();
  core_.failed_handshakes_.fetch_add(1, memory_order_relaxed);
  core_.address_limits_.release(peer);
  refuse_assigned();
  core_.options.transport->handshake_failed(peer, reason, protocol.get());
}

// Returns the kind of the socket if a proxy or a former owner has passed the peer's address: behind
// a proxy that connects by a Unix socket, the client has an IP address.
std::optional<io::handle_kind> server_shard::kind_of(const unique_fd& connection,
                                                     const endpoint& peer,
                                                     bool was_opened) const noexcept try {
  const bool may_differ = was_opened || core_.options.proxy_protocol.trusted;
  if (!may_differ || !peer.is_ip()) return std::nullopt;
  return socket_ref(connection.get()).local_endpoint().is_ip() ? io::handle_kind::stream_socket
                                                               : io::handle_kind::socket;
} catch (const std::exception&) {
  return std::nullopt;  // a lost connection is reported by the first receive
}

void server_shard::begin_connection(unique_fd connection, const endpoint& peer,
                                    std::unique_ptr<layer> protocol,
                                    std::span<const std::byte> early_bytes, bool was_opened) {
  const std::uint64_t id = core_.next_id_.fetch_add(1, memory_order_relaxed) + 1;
  if (stage_ == stop_stage::grace_over) {
    connection.reset();
  } else if (const auto kind = kind_of(connection, peer, was_opened);
             adopt(std::move(connection), peer, id, std::move(protocol), early_bytes, kind)) {
    return;
  }
  core_.address_limits_.release(peer);
  proxy_header_.reset();
  refuse_assigned();
}

void server_shard::on_connection_ended(tcp_connection& connection) noexcept {
  core_.address_limits_.release(connection.peer_endpoint());
}

void server_shard::refuse_assigned() noexcept {
  core_.refused_count_.fetch_add(1, memory_order_relaxed);
  release_assigned();
}

void server_shard::on_accepting_paused(std::error_code error, const accept_policy::pause& pause) {
  const callback_gate::pass gate_pass(gate());
  core_.accept_errors_.fetch_add(1, memory_order_relaxed);
  core_.refused_count_.fetch_add(pause.refused, memory_order_relaxed);
  if (gate_pass && pause.is_first && core_.handlers.accept_error)
    core_.handlers.accept_error(error);
}

void server_shard::release_assigned() noexcept {
  assigned_connections.fetch_sub(1, memory_order_relaxed);
  core_.release_slot();
}

void server_shard::on_connection_gone() { release_assigned(); }

// --- Its end ---

void server_shard::stop(std::chrono::nanoseconds timeout) {
  const steady_time stop_by = loop().deadline_after(timeout);
  const bool is_first_stop = stage_ == stop_stage::none;
  if (is_first_stop) {
    stage_ = stop_stage::begun;
    stop_by_ = stop_by;
    grace_ends_ = loop().deadline_after(core_.options.stop_grace);
    stop_timer_.emplace(loop(), [this] { advance_stop(); });
  }
  stop_by_ = std::min(stop_by_, stop_by);
  grace_ends_ = std::min(grace_ends_, stop_by_);
  // Starts the timer first, because the calls below may throw what callbacks throw.
  stop_timer_->start_at(stage_ == stop_stage::begun ? grace_ends_ : stop_by_);
  if (!is_first_stop) return limit_closing(closed_by::closing, timeout);
  drain_acceptors();
  begin_to_drain();
}

void server_shard::advance_stop() {
  const callback_gate::pass gate_pass(gate());
  if (!gate_pass) return;
  const bool is_over = loop().now() >= stop_by_;
  if (!is_over) stop_timer_->start_at(stop_by_);
  if (stage_ == stop_stage::begun) {
    stage_ = stop_stage::grace_over;
    const std::size_t refused_count = opening_connections_.size();
    for (const opening_connection& connection : opening_connections_) {
      if (connection.proxy == nullptr) core_.address_limits_.release(connection.peer);
    }
    acceptors_.clear();
    opening_connections_.clear();
    for (std::size_t i = 0; i < refused_count; ++i) refuse_assigned();
    note_accepting_ended();
    if (!is_over) return stop_waiting_for_input();
  }
  if (is_over) limit_closing(closed_by::all, std::chrono::nanoseconds{0});
}

// Removes acceptors whose queues are empty. Queued connections are accepted first, because their
// peers have connected, and may have sent.
void server_shard::drain_acceptors() {
  acceptors_.remove_if([](acceptor& candidate) { return candidate.is_drained(); });
  if (acceptors_.empty()) return note_accepting_ended();
  // Acceptors that are held or pausing are checked again when the next connection is accepted.
  if (std::ranges::any_of(acceptors_, &acceptor::is_accepting)) core_.post_server_changes(*this);
}

void server_shard::note_accepting_ended() noexcept {
  if (!std::exchange(has_accepting_ended_, true)) core_.finish_shard();
}

void server_shard::on_connection_drained(tcp_connection& connection) {
  if (auto& handler = core_.handlers.stopping) return handler(connection);
  const std::chrono::nanoseconds time_left = stop_by_ - std::min(stop_by_, loop().now());
  connection.close(time_left, time_left);
}

void server_shard::close_others() noexcept {
  acceptors_.clear();
  opening_connections_.clear();
  stop_timer_.reset();
}

}  // namespace gyre::net::detail
