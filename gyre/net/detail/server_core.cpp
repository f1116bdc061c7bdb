// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/server_core.hpp>

#include <gyre/io/descriptor.hpp>
#include <gyre/net/detail/callback_gate.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/server_defaults.hpp>
#include <gyre/net/detail/server_shard.hpp>
#include <gyre/net/detail/system_sockets.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace gyre::net::detail {

using std::memory_order_relaxed;

namespace {

bool is_listening(const socket_ref& candidate) {
  return system::get_option(candidate.fd(), system::so_type) == SOCK_STREAM &&
         system::get_option(candidate.fd(), system::so_acceptconn) != 0;
}

std::size_t half_of_descriptors() noexcept {
  const std::size_t count = system::max_descriptors();
  return count == 0 ? tcp_server_options::unlimited : std::max<std::size_t>(count / 2, 1);
}

}  // namespace

server_core::server_core(const std::vector<event_loop*>& loops, tcp_server_options settings)
    : options(validate(std::move(settings))),
      loops_(std::max<std::size_t>(loops.size(), 1)),
      broadcast_quota_(options.broadcast_limit),
      address_limits_(options.connections_per_address.value_or(half_of_descriptors()),
                      options.accepts_per_address, options.accept_interval),
      unfinished_(loops.size()) {
  require_loops(loops, "gyre::net::tcp_server");
  handlers.accept_error = print_accept_errors(options.name);
  for (event_loop* loop : loops) shards_.push_back(std::make_unique<server_shard>(*this, *loop));
}

server_core::~server_core() = default;

server_handlers& server_core::settable_handlers() {
  const std::lock_guard lock(mutex_);
  if (is_started_) throw std::logic_error("gyre::net::tcp_server: a handler is set after start()");
  return handlers;
}

template <class Function>
void server_core::post(server_shard& target, Function function) {
  target.loop().post([target = shared(target), function = std::move(function)]() mutable {
    const callback_gate::pass gate_pass(target->gate());
    if (gate_pass) function(*target);
  });
}

template <class Function>
void server_core::post_to_all(Function function) {
  for (auto& shard : shards_) post(*shard, function);
}

void server_core::listen(const endpoint& local) {
  // Several Unix sockets cannot share an address.
  const bool uses_every_loop = options.strategy == accept_strategy::every_loop && local.is_ip();
  const std::size_t count = uses_every_loop ? shards_.size() : 1;
  endpoint address = local;
  std::vector<socket> sockets;
  for (std::size_t i = 0; i < count; ++i) {
    socket listening_socket = socket::open(local.family(), socket_type::stream);
    if (local.is_ip()) {
      listening_socket.set_reuse_address(options.reuse_address);
      if (count > 1 || options.reuse_port) listening_socket.set_reuse_port(true);
      if (local.family() == address_family::ipv6) listening_socket.set_v6_only(options.ipv6_only);
      apply(options.connections, listening_socket);
    }
    listening_socket.apply(options.sockets);
    bind_listener(listening_socket, address, true);
    listening_socket.listen(options.backlog);
    address = listening_socket.local_endpoint();  // the other sockets get the port of the first one
    sockets.push_back(std::move(listening_socket));
  }
  add(address, std::move(sockets), true);
}

void server_core::listen(std::vector<socket> listeners) {
  require(!listeners.empty(), "gyre::net::tcp_server: no socket to listen");
  for (socket& listening_socket : listeners) {
    if (!is_listening(listening_socket)) {
      fail(std::errc::invalid_argument, "gyre::net::tcp_server: the socket does not listen");
    }
    listening_socket = socket(io::made_non_blocking(listening_socket.release()));
    // Accepted connections inherit the options of the listening socket.
    if (listening_socket.local_endpoint().is_ip()) apply(options.connections, listening_socket);
  }
  const endpoint local = listeners.front().local_endpoint();
  const std::size_t count = listeners.size();
  const std::size_t shard_count = accepting_shards().size();
  for (std::size_t i = count; i < shard_count; ++i) {
    listeners.push_back(copy_of(listeners[i % count]));
  }
  add(local, std::move(listeners), false);
}

void server_core::add(const endpoint& local, std::vector<socket> listeners, bool are_own) {
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return;
  endpoints_.push_back(local);
  const std::size_t shard_count = accepting_shards().size();
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    waiting_listeners_.push_back(
        {shards_[i % shard_count].get(), std::move(listeners[i]), are_own});
  }
  if (is_started_) open_waiting();
}

void server_core::open_waiting() {
  for (listener& pending_listener : std::exchange(waiting_listeners_, {})) {
    post(*pending_listener.target,
         [local_socket = std::move(pending_listener.listening_socket),
          is_own = pending_listener.is_own](server_shard& target) mutable {
           target.open(std::move(local_socket), is_own);
         });
  }
}

endpoint server_core::local_endpoint(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  if (index >= endpoints_.size()) {
    throw std::out_of_range(
        "gyre::net::tcp_server::local_endpoint: listen() was not called so often before");
  }
  return endpoints_[index];
}

void server_core::start() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_started_, true))
    throw std::logic_error("gyre::net::tcp_server: started twice");
  open_waiting();
}

void server_core::adopt(unique_fd connection) {
  unique_fd fd = io::made_non_blocking(std::move(connection));
  const endpoint peer = socket_ref(fd.get()).peer_endpoint();
  if (peer.is_ip()) apply(options.connections, socket_ref(fd.get()));
  adopt(std::move(fd), peer, nullptr);
}

void server_core::adopt(unique_fd connection, const endpoint& peer) {
  unique_fd fd = io::made_non_blocking(std::move(connection));
  // peer_endpoint() throws if the socket is not connected.
  const endpoint peer_address = socket_ref(fd.get()).peer_endpoint();
  if (peer_address.is_ip()) apply(options.connections, socket_ref(fd.get()));
  adopt(std::move(fd), peer.is_ip() ? peer : peer_address, nullptr);
}

void server_core::adopt(released_connection connection) {
  auto content = std::make_unique<released_connection>(std::move(connection));
  unique_fd fd = std::move(content->socket);
  // peer_endpoint() throws if the socket is not connected.
  const endpoint peer_address = socket_ref(fd.get()).peer_endpoint();
  const endpoint peer = content->peer.is_ip() ? content->peer : peer_address;
  adopt(std::move(fd), peer, std::move(content));
}

void server_core::adopt(unique_fd connection, const endpoint& peer,
                        std::unique_ptr<released_connection> released_state) {
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): the function owns `released_state`
  post(*shards_.front(),
       [connection = std::move(connection), peer,
        released_state = std::move(released_state)](server_shard& target) mutable {
         target.adopted(std::move(connection), peer, std::move(released_state));
       });
}

void server_core::set_hold(hold reason, bool is_held) {
  post_to_all([reason, is_held](server_shard& target) { target.set_hold(reason, is_held); });
}

connection_group::limits server_core::limits_of_shard() const noexcept {
  // Each further descriptor counts as this many bytes, so that the memory limit bounds descriptors,
  // too: all connections together hold at most half of those that the process may have.
  return {.max_bytes = options.memory_limit / loops_,
          .bytes_per_further_descriptor = options.memory_limit / half_of_descriptors(),
          .pause_at_high_water = true,
          .idle_timeout = std::chrono::minutes{10}};
}

// Calls a function made by `make_function` with each connection. `bytes` count in the quota until
// all loops have made their calls. Returns false if they exceed the quota.
template <class Make>
bool server_core::visit_all(std::size_t bytes, Make&& make_function) {
  byte_quota::share share = broadcast_quota_.take(bytes);
  if (!share) return false;
  struct visit {
    decltype(make_function()) function;
    byte_quota::share share;
  };
  auto shared_visit = std::make_shared<visit>(make_function(), std::move(share));
  post_to_all([shared_visit = std::move(shared_visit)](server_shard& target) {
    target.for_each(shared_visit->function);
  });
  return true;
}

bool server_core::for_each(std::function<void(tcp_connection&)> function) {
  return visit_all(0, [&] { return std::move(function); });
}

bool server_core::broadcast(std::span<const std::byte> bytes) {
  return visit_all(bytes.size(), [bytes] {
    return [copy = std::vector<std::byte>(bytes.begin(), bytes.end())](tcp_connection& connection) {
      connection.send(copy);
    };
  });
}

// Adds `callback` last: afterwards `callback` may run at any time on the first loop, and may
// destroy the server, and let another thread destroy the loops. Only the reference keeps this
// object then.
void server_core::stop(duration timeout, move_only_function<void()> callback) {
  const auto self = shared_from_this();
  begin_to_stop();
  post_to_all([timeout](server_shard& target) { target.stop(timeout); });
  add_stop_callback(std::move(callback));
}

void server_core::stop(steady_time deadline, move_only_function<void()> callback) {
  const auto self = shared_from_this();  // stop(duration) explains the reference
  begin_to_stop();
  post_to_all([deadline](server_shard& target) {
    const steady_time current_time = target.loop().now();
    target.stop(std::max<steady_time>(deadline, current_time) - current_time);
  });
  add_stop_callback(std::move(callback));
}

void server_core::begin_to_stop() {
  const std::lock_guard lock(mutex_);
  is_stopping_ = true;
  waiting_listeners_.clear();
}

void server_core::add_stop_callback(move_only_function<void()> callback) {
  if (!callback) return;
  {
    const std::lock_guard lock(mutex_);
    stop_callbacks_.push_back(std::move(callback));
    if (!is_stopped_) return;  // finish_shard() will post the call
  }
  post_server_changes(*shards_.front());
}

void server_core::finish_shard() noexcept {
  // acq_rel: pairs with the other calls of finish_shard(); makes the effects of all loops visible
  // to the loop that finishes last.
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  post_server_changes(*shards_.front());
}

// Calls one callback of stop(). Each call has a turn of its own, so that an exception, or a
// callback that destroys the server, does not affect the others.
void server_core::call_next_stop_callback() {
  move_only_function<void()> callback;
  bool has_more = false;
  {
    const std::lock_guard lock(mutex_);
    if (!is_stopped_ || stop_callbacks_.empty()) return;
    callback = std::move(stop_callbacks_.front());
    stop_callbacks_.erase(stop_callbacks_.begin());
    has_more = !stop_callbacks_.empty();
  }
  if (has_more) post_server_changes(*shards_.front());
  callback();
}

void server_core::post_server_changes(server_shard& target) noexcept {
  target.changes_release.post(target.loop(), shared(target));
}

void server_core::abandon() noexcept {
  {
    const std::lock_guard lock(mutex_);
    waiting_listeners_.clear();
  }
  for (auto& shard : shards_) connection_group::abandon(shared(*shard));
}

tcp_server_metrics server_core::metrics() const noexcept {
  tcp_server_metrics sum;
  sum.accepted = accepted_count_.load(memory_order_relaxed);
  sum.refused = refused_count_.load(memory_order_relaxed);
  sum.limited = limited_count_.load(memory_order_relaxed);
  sum.failed_handshakes = failed_handshakes_.load(memory_order_relaxed);
  sum.accept_errors = accept_errors_.load(memory_order_relaxed);
  for (const auto& shard : shards_) {
    sum.connections += shard->assigned_connections.load(memory_order_relaxed);
    const connection_metrics traffic = shard->metrics();
    sum.traffic.bytes_received += traffic.bytes_received;
    sum.traffic.bytes_sent += traffic.bytes_sent;
    sum.traffic.messages += traffic.messages;
  }
  return sum;
}

server_shard& server_core::choose_for(const endpoint& peer, server_shard& receiver) noexcept {
  switch (options.strategy) {
    case accept_strategy::every_loop:
      if (peer.is_ip()) return receiver;
      break;
    case accept_strategy::hash_of_peer:
      if (peer.is_ip()) {
        return *shards_[std::hash<ip_address>()(peer.address()) % shards_.size()];
      }
      break;  // a Unix peer has no address to hash
    case accept_strategy::least_connections: {
      server_shard* least_loaded = shards_.front().get();
      for (auto& shard : shards_) {
        if (shard->assigned_connections.load(memory_order_relaxed) <
            least_loaded->assigned_connections.load(memory_order_relaxed)) {
          least_loaded = shard.get();
        }
      }
      return *least_loaded;
    }
    case accept_strategy::round_robin: break;
  }
  return *shards_[next_shard_++ % shards_.size()];
}

// relaxed: the number of slots is changed by read-modify-writes only, so that exactly one shard
// sees that it took the last slot, and one that it released the first. That shard makes all
// accepting shards read the number again, so that a shard that has read an outdated number corrects
// itself.
bool server_core::is_full() const noexcept {
  return slots_taken_.load(memory_order_relaxed) >= options.max_connections;
}

// Takes a slot, and returns the number of taken slots, this one included.
std::size_t server_core::take_slot(server_shard& receiver) noexcept {
  unfinished_.fetch_add(1, memory_order_relaxed);  // never 0 before, as the caller's shard counts
  const std::size_t count = slots_taken_.fetch_add(1, memory_order_relaxed) + 1;
  if (count == options.max_connections) {
    for (auto& shard : accepting_shards()) {
      if (shard.get() != &receiver) post_server_changes(*shard);
    }
  }
  return count;
}

void server_core::release_slot() noexcept {
  if (slots_taken_.fetch_sub(1, memory_order_relaxed) == options.max_connections) {
    for (auto& shard : accepting_shards()) post_server_changes(*shard);
  }
  finish_shard();
}

std::span<const std::unique_ptr<server_shard>> server_core::accepting_shards() const noexcept {
  const bool uses_every_loop = options.strategy == accept_strategy::every_loop;
  return std::span(shards_).first(uses_every_loop ? shards_.size() : 1);
}

}  // namespace gyre::net::detail
