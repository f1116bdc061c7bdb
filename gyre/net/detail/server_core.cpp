// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/descriptor.hpp>
#include <gyre/net/detail/bind_listener.hpp>
#include <gyre/net/detail/server_core.hpp>
#include <gyre/net/passed_sockets.hpp>

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <utility>

namespace gyre::net {

using std::memory_order_relaxed;

namespace {

bool is_listening(const socket_ref& asked) {
  int type = 0;
  int listens = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(asked.fd(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      ::getsockopt(asked.fd(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0) {
    throw std::system_error(errno, std::generic_category(), "SO_ACCEPTCONN");
  }
  return type == SOCK_STREAM && listens != 0;
}

std::size_t half_of_descriptors() noexcept {
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return tcp_server_options::unlimited;
  }
  return std::max<std::size_t>(limit.rlim_cur / 2, 1);
}

}  // namespace

tcp_server::core::core(const std::vector<event_loop*>& loops, tcp_server_options how)
    : options(std::move(how)),
      loops_(std::max<std::size_t>(loops.size(), 1)),
      visits_(options.broadcast_limit),
      by_address_(options.connections_per_address.value_or(half_of_descriptors()),
                  options.accepts_per_address, options.accept_interval),
      shards_running_(loops.size()) {
  if (loops.empty())
    throw std::invalid_argument("gyre::net::tcp_server: at least one loop is needed");
  if (std::ranges::count(loops, nullptr) > 0)
    throw std::invalid_argument("gyre::net::tcp_server: a loop is null");
  if (options.max_connections == 0)
    throw std::invalid_argument("gyre::net::tcp_server: max_connections is zero");
  if (options.accept_interval.count() <= 0)
    throw std::invalid_argument("gyre::net::tcp_server: accept_interval is not positive");
  handlers.accept_error = [name = options.name](std::error_code why) {
    std::fprintf(stderr, "gyre: %s: accepting pauses: %s\n", name.c_str(), why.message().c_str());
  };
  for (event_loop* loop : loops) shards_.push_back(std::make_unique<shard>(*this, *loop));
}

detail::server_handlers& tcp_server::core::settable_handlers() {
  const std::lock_guard lock(mutex_);
  if (started_) throw std::logic_error("gyre::net::tcp_server: a handler is set after start()");
  return handlers;
}

template <class Function>
void tcp_server::core::post_to_all(Function function) {
  for (auto& each : shards_) {
    each->loop().post([part = shared(*each), function] {
      const detail::callback_gate::pass passing(part->gate());
      if (passing) function(*part);
    });
  }
}

void tcp_server::core::listen(const endpoint& at) {
  // Unix sockets cannot share an address.
  const bool every_loop = options.strategy == accept_strategy::every_loop && at.is_ip();
  const std::size_t count = every_loop ? shards_.size() : 1;
  endpoint bound = at;
  std::vector<listener> made;
  for (std::size_t i = 0; i < count; ++i) {
    socket listening = socket::open(at.family(), socket_type::stream);
    if (at.is_ip()) {
      listening.set_reuse_address(options.reuse_address);
      if (count > 1 || options.reuse_port) listening.set_reuse_port(true);
      if (at.family() == address_family::ipv6) listening.set_v6_only(options.ipv6_only);
      detail::apply(options.connections, listening);
    }
    listening.apply(options.sockets);
    detail::bind_listener(listening, bound, true);
    listening.listen(options.backlog);
    bound = listening.local_endpoint();  // the others get the port of the first
    made.push_back({shards_[i].get(), std::move(listening)});
  }
  add(bound, std::move(made));
}

void tcp_server::core::listen(std::vector<socket> listening) {
  if (listening.empty()) throw std::invalid_argument("gyre::net::tcp_server: no socket to listen");
  for (socket& each : listening) {
    if (!is_listening(each)) {
      throw std::system_error(std::make_error_code(std::errc::invalid_argument),
                              "gyre::net::tcp_server: the socket does not listen");
    }
    each = socket(io::made_non_blocking(each.release()));
  }
  const endpoint at = listening.front().local_endpoint();
  const std::size_t given = listening.size();
  const std::size_t accepting = accepting_shards().size();
  for (std::size_t i = given; i < accepting; ++i) {
    listening.push_back(copy_of(listening[i % given]));
  }
  std::vector<listener> made;
  for (std::size_t i = 0; i < listening.size(); ++i) {
    made.push_back({shards_[i % accepting].get(), std::move(listening[i])});
  }
  add(at, std::move(made));
}

void tcp_server::core::add(const endpoint& at, std::vector<listener> made) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  endpoints_.push_back(at);
  for (listener& each : made) {
    if (started_) {
      open(std::move(each));
    } else {
      waiting_.push_back(std::move(each));
    }
  }
}

void tcp_server::core::open(listener ready) {
  shard& part = *ready.on;
  part.loop().post([part = shared(part), listening = std::move(ready.listening)]() mutable {
    const detail::callback_gate::pass passing(part->gate());
    if (passing) part->open(std::move(listening));
  });
}

endpoint tcp_server::core::local_endpoint(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  if (index >= endpoints_.size()) {
    throw std::out_of_range(
        "gyre::net::tcp_server::local_endpoint: listen() was not called so often before");
  }
  return endpoints_[index];
}

void tcp_server::core::start() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(started_, true)) throw std::logic_error("gyre::net::tcp_server: started twice");
  for (listener& each : std::exchange(waiting_, {})) open(std::move(each));
}

void tcp_server::core::adopt(unique_fd connection) {
  unique_fd served = io::made_non_blocking(std::move(connection));
  const endpoint peer = socket_ref(served.get()).peer_endpoint();
  if (peer.is_ip()) detail::apply(options.connections, socket_ref(served.get()));
  shard& first = *shards_.front();
  first.loop().post([part = shared(first), served = std::move(served), peer]() mutable {
    part->accepted(std::move(served), peer);
  });
}

void tcp_server::core::hold(detail::acceptor::hold why, bool held) {
  post_to_all([why, held](shard& part) { part.hold(why, held); });
}

detail::connection_group::limits tcp_server::core::limits_of_one() const noexcept {
  // So that what all hold of the memory is no more than half of the descriptors, either.
  return {.memory = options.memory_limit / loops_,
          .further_descriptor = options.memory_limit / half_of_descriptors(),
          .pause_at_high_water = true,
          .idle_timeout = std::chrono::minutes{10}};
}

// Calls what `make_function` gives with each connection; what it holds counts until all loops had it.
template <class Function>
bool tcp_server::core::visit_all(std::size_t bytes, Function&& make_function) {
  std::optional<detail::byte_quota::share> share = visits_.take(bytes);
  if (!share) return false;
  struct visit {
    decltype(make_function()) called;
    detail::byte_quota::share held;
  };
  auto shared_visit = std::make_shared<visit>(make_function(), std::move(*share));
  post_to_all([shared_visit = std::move(shared_visit)](shard& part) {
    part.for_each(shared_visit->called);
  });
  return true;
}

bool tcp_server::core::for_each(std::function<void(tcp_connection&)> function) {
  return visit_all(0, [&] { return std::move(function); });
}

bool tcp_server::core::broadcast(std::span<const std::byte> bytes) {
  return visit_all(bytes.size(), [bytes] {
    return [copy = std::vector<std::byte>(bytes.begin(), bytes.end())](tcp_connection& each) {
      each.send(copy);
    };
  });
}

void tcp_server::core::stop(std::chrono::nanoseconds timeout, move_only_function<void()> done) {
  begin_to_stop(std::move(done));
  post_to_all([timeout](shard& part) { part.stop(timeout); });
}

void tcp_server::core::stop(steady_time deadline, move_only_function<void()> done) {
  begin_to_stop(std::move(done));
  post_to_all([deadline](shard& part) {
    const steady_time present = part.loop().now();
    part.stop(std::max(deadline, present) - present);
  });
}

void tcp_server::core::begin_to_stop(move_only_function<void()> done) {
  bool stopped = false;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.clear();
    if (done) when_stopped_.push_back(std::move(done));
    stopped = stopped_;
  }
  if (stopped) catch_up_later(*shards_.front());
}

void tcp_server::core::shard_stopped() noexcept {
  // acq_rel: the last one sees all that the others did.
  if (shards_running_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  catch_up_later(*shards_.front());
}

// Each in a turn's part of its own: what it throws, and whether it destroys the server, is no matter
// of the others.
void tcp_server::core::tell_one() {
  move_only_function<void()> done;
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_ || when_stopped_.empty()) return;
    done = std::move(when_stopped_.front());
    when_stopped_.erase(when_stopped_.begin());
    more = !when_stopped_.empty();
  }
  if (more) catch_up_later(*shards_.front());
  done();
}

void tcp_server::core::catch_up_later(shard& part) noexcept {
  part.catch_up_release.post(part.loop(), shared(part));
}

void tcp_server::core::abandon() noexcept {
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
  }
  for (auto& each : shards_) detail::connection_group::abandon(shared(*each));
}

tcp_server_metrics tcp_server::core::metrics() const noexcept {
  tcp_server_metrics sum;
  sum.accepted = accepted_.load(memory_order_relaxed);
  sum.refused = refused_.load(memory_order_relaxed);
  sum.limited = limited_.load(memory_order_relaxed);
  sum.accept_errors = accept_errors_.load(memory_order_relaxed);
  for (const auto& each : shards_) {
    sum.connections += each->assigned.load(memory_order_relaxed);
    const connection_metrics part = each->metrics();
    sum.traffic.bytes_received += part.bytes_received;
    sum.traffic.bytes_sent += part.bytes_sent;
    sum.traffic.messages += part.messages;
  }
  return sum;
}

tcp_server::core::shard& tcp_server::core::choose_for(const endpoint& peer,
                                                      shard& acceptor) noexcept {
  switch (options.strategy) {
    case accept_strategy::every_loop:
      if (peer.is_ip()) return acceptor;
      break;
    case accept_strategy::hash_of_peer:
      if (peer.is_ip()) {
        return *shards_[std::hash<ip_address>()(peer.address()) % shards_.size()];
      }
      break;  // all Unix peers look the same
    case accept_strategy::least_connections: {
      shard* least = shards_.front().get();
      for (auto& each : shards_) {
        if (each->assigned.load(memory_order_relaxed) <
            least->assigned.load(memory_order_relaxed)) {
          least = each.get();
        }
      }
      return *least;
    }
    case accept_strategy::round_robin: break;
  }
  return *shards_[next_shard_++ % shards_.size()];
}

// The number of places is changed by read-modify-writes only, so that exactly one of those who take
// places sees that it took the last, and one of those who give them back that there was none left.
// They let all who accept look at the number, as it is by then: who sees one that is out of date is
// told once more.
bool tcp_server::core::is_full() const noexcept {
  return places_taken_.load(memory_order_relaxed) >= options.max_connections;
}

// How many are taken with it.
std::size_t tcp_server::core::take_place(shard& acceptor) noexcept {
  const std::size_t taken = places_taken_.fetch_add(1, memory_order_relaxed) + 1;
  if (taken == options.max_connections) {
    for (auto& each : accepting_shards()) {
      if (each.get() != &acceptor) catch_up_later(*each);
    }
  }
  return taken;
}

void tcp_server::core::give_place_back() noexcept {
  if (places_taken_.fetch_sub(1, memory_order_relaxed) != options.max_connections) return;
  for (auto& each : accepting_shards()) catch_up_later(*each);
}

std::span<const std::unique_ptr<tcp_server::core::shard>> tcp_server::core::accepting_shards()
    const noexcept {
  const bool all = options.strategy == accept_strategy::every_loop;
  return std::span(shards_).first(all ? shards_.size() : 1);
}

// --- On one loop ---

void tcp_server::core::shard::catch_up() {
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  hold(detail::acceptor::full, core_.is_full());
  core_.tell_one();
}

void tcp_server::core::shard::open(socket listening) {
  if (stopping_) return;
  const tcp_server_options& options = core_.options;
  auto opened = std::make_unique<detail::acceptor>(
      loop(), *this, std::move(listening),
      detail::acceptor::settings{.ahead = options.max_connections == tcp_server_options::unlimited,
                                 .backoff = options.accept_backoff,
                                 .backoff_limit = options.accept_backoff_limit});
  for (const auto hold : {detail::acceptor::paused, detail::acceptor::full}) {
    if (holds_ & hold) opened->add_hold(hold);
  }
  opened->open();
  acceptors_.push_back(std::move(opened));
}

void tcp_server::core::shard::hold(detail::acceptor::hold why, bool held) noexcept {
  holds_ = static_cast<std::uint8_t>(held ? holds_ | why : holds_ & ~why);
  for (auto& each : acceptors_) {
    if (held) {
      each->add_hold(why);
    } else {
      each->remove_hold(why);
    }
  }
}

void tcp_server::core::shard::accepted(unique_fd connection, const endpoint& peer) {
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  core_.accepted_.fetch_add(1, memory_order_relaxed);
  const std::size_t taken = core_.take_place(*this);
  if (taken >= core_.options.max_connections) hold(detail::acceptor::full, core_.is_full());
  if (taken > core_.options.max_connections) {
    count_refused();
    core_.give_place_back();
    return;
  }
  shard& chosen = core_.choose_for(peer, *this);
  chosen.assigned.fetch_add(1, memory_order_relaxed);
  if (&chosen == this) return adopt_accepted(std::move(connection), peer);
  try {
    chosen.loop().post([part = core_.shared(chosen), connection = std::move(connection),
                        peer]() mutable { part->adopt_accepted(std::move(connection), peer); });
  } catch (const std::bad_alloc&) {
    count_refused();
    chosen.give_back();
  }
}

void tcp_server::core::shard::adopt_accepted(unique_fd connection, const endpoint& peer) {
  // Behind the server's end the other loops may be gone, which giving its place back would post to.
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  const auto& trusted = core_.options.proxy_protocol.trusted;
  if (!trusted || stopping_) return serve(std::move(connection), peer);
  bool is_proxy = false;
  try {
    is_proxy = trusted(peer);
  } catch (...) {
    count_refused();
    give_back();
    throw;
  }
  if (!is_proxy) return serve(std::move(connection), peer);
  if (begin_handshake(connection, peer)) return;
  count_refused();
  give_back();
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
    return give_back();
  }
  const endpoint peer = header->source.is_ip() ? header->source : proxy;
  arriving_ = std::move(header);
  serve(std::move(connection), peer);
}

void tcp_server::core::shard::connection_begins(tcp_connection& begun) {
  if (!arriving_) return;
  begun.context() = std::move(*arriving_);
  arriving_.reset();
}

// Limits per address hold for the client's, which behind a proxy is known only now.
void tcp_server::core::shard::serve(unique_fd connection, const endpoint& peer) {
  if (!core_.by_address_.admit(peer, loop().now())) {
    connection.reset();
    arriving_.reset();
    core_.limited_.fetch_add(1, memory_order_relaxed);
    count_refused();
    return give_back();
  }
  const std::uint64_t id = core_.next_id_.fetch_add(1, memory_order_relaxed) + 1;
  if (!stopping_ && adopt(std::move(connection), peer, id)) return;
  arriving_.reset();
  refuse(peer);
  give_back();
}

void tcp_server::core::shard::refuse(const endpoint& peer) noexcept {
  count_refused();
  core_.by_address_.release(peer);
}

void tcp_server::core::shard::connection_ends(tcp_connection& ended) noexcept {
  core_.by_address_.release(ended.peer_endpoint());
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

void tcp_server::core::shard::give_back() noexcept {
  assigned.fetch_sub(1, memory_order_relaxed);
  core_.give_place_back();
}

void tcp_server::core::shard::connection_gone() {
  give_back();
  if (stopping_) stop_if_empty();
}

void tcp_server::core::shard::stop(std::chrono::nanoseconds timeout) {
  stopping_ = true;
  const std::size_t arriving = handshakes_.size();
  close_others();
  for (std::size_t i = 0; i < arriving; ++i) give_back();
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
