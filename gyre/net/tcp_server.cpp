// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_server.hpp>

#include <gyre/base/error.hpp>
#include <gyre/net/detail/server_core.hpp>
#include <gyre/net/detail/server_defaults.hpp>
#include <gyre/net/passed_sockets.hpp>

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>

namespace gyre::net {

// --- Limits per address ---

namespace detail {

// Sums of two intervals and the time that a machine runs do not overflow. It is 73 years.
constexpr std::chrono::nanoseconds longest_interval = duration::max() / 4;

address_limits::address_limits(std::size_t connections, std::size_t accepts,
                               std::chrono::nanoseconds interval) noexcept
    : connections_(connections),
      counts_accepts_(accepts != unlimited),
      interval_(std::min(interval, longest_interval)),
      accept_cost_(interval_ /
                   std::max<std::int64_t>(
                       static_cast<std::int64_t>(std::min<std::size_t>(accepts, 1 << 30)), 1)) {}

bool address_limits::is_limited(const endpoint& peer) const noexcept {
  return (connections_ != unlimited || counts_accepts_) && peer.is_ip();
}

ip_address address_limits::key_of(const endpoint& peer) noexcept {
  const ip_address address = peer.address().unmapped();
  if (address.is_v4()) return address;
  ip_address::v6_bytes network{};
  std::ranges::copy(address.bytes().first(network.size() / 2), network.begin());
  return ip_address(network);
}

bool address_limits::admit(const endpoint& peer, steady_time present) noexcept {
  if (!is_limited(peer)) return true;
  const std::lock_guard lock(mutex_);
  try {
    if (entries_.size() >= sweep_threshold_) {
      // Costs a constant number of looks per entry that was added: the next time is twice as far.
      std::erase_if(entries_, [&](const auto& each) {
        return each.second.connections == 0 && each.second.due <= present;
      });
      sweep_threshold_ = std::max<std::size_t>(2 * entries_.size(), 1024);
    }
    entry& of = entries_[key_of(peer)];
    if (of.connections >= connections_) return false;
    if (counts_accepts_) {
      const steady_time due = std::max(of.due, present) + accept_cost_;
      if (due - present > interval_) return false;
      of.due = due;
    }
    ++of.connections;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void address_limits::release(const endpoint& peer) noexcept {
  if (!is_limited(peer)) return;
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key_of(peer));
  if (found == entries_.end() || --found->second.connections > 0) return;
  if (!counts_accepts_) entries_.erase(found);
}

std::size_t address_limits::size() const noexcept {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace detail

// --- What all loops share ---

using std::memory_order_relaxed;

namespace {

bool is_listening(const socket_ref& candidate) {
  int type = 0;
  int listens = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(candidate.fd(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      ::getsockopt(candidate.fd(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0) {
    gyre::detail::throw_errno("SO_ACCEPTCONN");
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

tcp_server::core::core(const std::vector<event_loop*>& loops, tcp_server_options settings)
    : options(detail::checked(std::move(settings))),
      loops_(std::max<std::size_t>(loops.size(), 1)),
      broadcast_quota_(options.broadcast_limit),
      address_limits_(options.connections_per_address.value_or(half_of_descriptors()),
                      options.accepts_per_address, options.accept_interval),
      unfinished_(loops.size()) {
  detail::require_loops(loops, "gyre::net::tcp_server");
  handlers.accept_error = detail::print_accept_errors(options.name);
  for (event_loop* loop : loops) shards_.push_back(std::make_unique<shard>(*this, *loop));
}

detail::server_handlers& tcp_server::core::settable_handlers() {
  const std::lock_guard lock(mutex_);
  if (started_) throw std::logic_error("gyre::net::tcp_server: a handler is set after start()");
  return handlers;
}

template <class Function>
void tcp_server::core::post(shard& target, Function function) {
  target.loop().post([target = shared(target), function = std::move(function)]() mutable {
    const detail::callback_gate::pass passing(target->gate());
    if (passing) function(*target);
  });
}

template <class Function>
void tcp_server::core::post_to_all(Function function) {
  for (auto& each : shards_) post(*each, function);
}

void tcp_server::core::listen(const endpoint& at) {
  // Unix sockets cannot share an address.
  const bool every_loop = options.strategy == accept_strategy::every_loop && at.is_ip();
  const std::size_t count = every_loop ? shards_.size() : 1;
  endpoint bound = at;
  std::vector<socket> added;
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
    added.push_back(std::move(listening));
  }
  add(bound, std::move(added), true);
}

void tcp_server::core::listen(std::vector<socket> listening) {
  detail::require(!listening.empty(), "gyre::net::tcp_server: no socket to listen");
  for (socket& each : listening) {
    if (!is_listening(each)) {
      detail::fail(std::errc::invalid_argument,
                   "gyre::net::tcp_server: the socket does not listen");
    }
    each = socket(io::made_non_blocking(each.release()));
    // Connections inherit them.
    if (each.local_endpoint().is_ip()) detail::apply(options.connections, each);
  }
  const endpoint at = listening.front().local_endpoint();
  const std::size_t count = listening.size();
  const std::size_t accepting = accepting_shards().size();
  for (std::size_t i = count; i < accepting; ++i) {
    listening.push_back(copy_of(listening[i % count]));
  }
  add(at, std::move(listening), false);
}

void tcp_server::core::add(const endpoint& at, std::vector<socket> listening, bool are_own) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  endpoints_.push_back(at);
  const std::size_t accepting = accepting_shards().size();
  for (std::size_t i = 0; i < listening.size(); ++i) {
    waiting_.push_back({shards_[i % accepting].get(), std::move(listening[i]), are_own});
  }
  if (started_) open_waiting();
}

void tcp_server::core::open_waiting() {
  for (listener& each : std::exchange(waiting_, {})) {
    post(*each.on, [opened = std::move(each.listening), own = each.is_own](shard& target) mutable {
      target.open(std::move(opened), own);
    });
  }
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
  open_waiting();
}

void tcp_server::core::adopt(unique_fd connection) {
  unique_fd served = io::made_non_blocking(std::move(connection));
  const endpoint peer = socket_ref(served.get()).peer_endpoint();
  if (peer.is_ip()) detail::apply(options.connections, socket_ref(served.get()));
  post(*shards_.front(), [served = std::move(served), peer](shard& target) mutable {
    target.adopted(std::move(served), peer);
  });
}

void tcp_server::core::set_hold(hold why, bool held) {
  post_to_all([why, held](shard& target) { target.set_hold(why, held); });
}

detail::connection_group::limits tcp_server::core::limits_of_one() const noexcept {
  // So that what all hold of the memory is no more than half of the descriptors, either.
  return {.memory = options.memory_limit / loops_,
          .further_descriptor = options.memory_limit / half_of_descriptors(),
          .pause_at_high_water = true,
          .idle_timeout = std::chrono::minutes{10}};
}

// Calls a function of `make_function` with each connection; `bytes` count until all loops have.
template <class Function>
bool tcp_server::core::visit_all(std::size_t bytes, Function&& make_function) {
  detail::byte_quota::share share = broadcast_quota_.take(bytes);
  if (!share) return false;
  struct visit {
    decltype(make_function()) function;
    detail::byte_quota::share held;
  };
  auto shared_visit = std::make_shared<visit>(make_function(), std::move(share));
  post_to_all([shared_visit = std::move(shared_visit)](shard& target) {
    target.for_each(shared_visit->function);
  });
  return true;
}

void tcp_server::core::begin_to_stop(move_only_function<void()> done) {
  bool stopped = false;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.clear();
    if (done) done_callbacks_.push_back(std::move(done));
    stopped = stopped_;
  }
  if (stopped) catch_up_later(*shards_.front());
}

void tcp_server::core::finish_one() noexcept {
  // acq_rel: the last one sees all that the others did.
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  catch_up_later(*shards_.front());
}

// One at a time: an exception of one, or its destroying the server, does not concern the others.
void tcp_server::core::call_one_done() {
  move_only_function<void()> done;
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_ || done_callbacks_.empty()) return;
    done = std::move(done_callbacks_.front());
    done_callbacks_.erase(done_callbacks_.begin());
    more = !done_callbacks_.empty();
  }
  if (more) catch_up_later(*shards_.front());
  done();
}

void tcp_server::core::catch_up_later(shard& target) noexcept {
  target.catch_up_release.post(target.loop(), shared(target));
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
  sum.failed_handshakes = failed_handshakes_.load(memory_order_relaxed);
  sum.accept_errors = accept_errors_.load(memory_order_relaxed);
  for (const auto& each : shards_) {
    sum.connections += each->assigned.load(memory_order_relaxed);
    const connection_metrics traffic = each->metrics();
    sum.traffic.bytes_received += traffic.bytes_received;
    sum.traffic.bytes_sent += traffic.bytes_sent;
    sum.traffic.messages += traffic.messages;
  }
  return sum;
}

tcp_server::core::shard& tcp_server::core::choose_for(const endpoint& peer,
                                                      shard& receiver) noexcept {
  switch (options.strategy) {
    case accept_strategy::every_loop:
      if (peer.is_ip()) return receiver;
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

// The number of slots is changed by read-modify-writes only, so that exactly one shard sees that it
// took the last slot, and one that it released the first. That shard makes all accepting shards
// read the number again: one that reads it too early is made to read it once more.
bool tcp_server::core::is_full() const noexcept {
  return slots_taken_.load(memory_order_relaxed) >= options.max_connections;
}

// The number of slots taken, with this one.
std::size_t tcp_server::core::take_slot(shard& receiver) noexcept {
  unfinished_.fetch_add(1, memory_order_relaxed);  // the caller's shard counts as well
  const std::size_t taken = slots_taken_.fetch_add(1, memory_order_relaxed) + 1;
  if (taken == options.max_connections) {
    for (auto& each : accepting_shards()) {
      if (each.get() != &receiver) catch_up_later(*each);
    }
  }
  return taken;
}

void tcp_server::core::release_slot() noexcept {
  if (slots_taken_.fetch_sub(1, memory_order_relaxed) == options.max_connections) {
    for (auto& each : accepting_shards()) catch_up_later(*each);
  }
  finish_one();
}

std::span<const std::unique_ptr<tcp_server::core::shard>> tcp_server::core::accepting_shards()
    const noexcept {
  const bool all = options.strategy == accept_strategy::every_loop;
  return std::span(shards_).first(all ? shards_.size() : 1);
}

// --- The server ---

tcp_server::tcp_server(event_loop& loop, tcp_server_options options)
    : tcp_server(std::vector<event_loop*>{&loop}, std::move(options)) {}
tcp_server::tcp_server(std::vector<event_loop*> loops, tcp_server_options options)
    : core_(std::make_shared<core>(loops, std::move(options))) {}
tcp_server::~tcp_server() { core_->abandon(); }

connection_handlers& tcp_server::settable_handlers() { return core_->settable_handlers(); }
tcp_server& tcp_server::on_accept_error(move_only_function<void(std::error_code)> callback) {
  core_->settable_handlers().accept_error = std::move(callback);
  return *this;
}

tcp_server& tcp_server::on_stopping(move_only_function<void(tcp_connection&)> callback) {
  core_->settable_handlers().stopping = std::move(callback);
  return *this;
}

void tcp_server::listen(const endpoint& at) { core_->listen(at); }
void tcp_server::listen(socket listening) {
  std::vector<socket> one;
  one.push_back(std::move(listening));
  core_->listen(std::move(one));
}
void tcp_server::listen(std::vector<socket> listening) { core_->listen(std::move(listening)); }
endpoint tcp_server::local_endpoint(std::size_t index) const {
  return core_->local_endpoint(index);
}
void tcp_server::start() { core_->start(); }
void tcp_server::adopt(unique_fd connection) { core_->adopt(std::move(connection)); }
void tcp_server::pause_accepting() { core_->set_hold(core::hold::paused, true); }
void tcp_server::resume_accepting() { core_->set_hold(core::hold::paused, false); }

void tcp_server::stop(duration timeout, move_only_function<void()> done) {
  core_->begin_to_stop(std::move(done));
  core_->post_to_all([timeout](core::shard& target) { target.stop(timeout); });
}
void tcp_server::stop(time_point deadline, move_only_function<void()> done) {
  core_->begin_to_stop(std::move(done));
  core_->post_to_all([deadline](core::shard& target) {
    const steady_time present = target.loop().now();
    target.stop(std::max<steady_time>(deadline, present) - present);
  });
}

bool tcp_server::for_each(std::function<void(tcp_connection&)> function) {
  return core_->visit_all(0, [&] { return std::move(function); });
}
bool tcp_server::broadcast(std::span<const std::byte> bytes) {
  return core_->visit_all(bytes.size(), [bytes] {
    return [copy = std::vector<std::byte>(bytes.begin(), bytes.end())](tcp_connection& each) {
      each.send(copy);
    };
  });
}

const std::string& tcp_server::name() const noexcept { return core_->options.name; }
tcp_server_metrics tcp_server::metrics() const noexcept { return core_->metrics(); }

}  // namespace gyre::net
