// SPDX-License-Identifier: Apache-2.0
// The server on one loop: accepting, headers of proxies, and the connections' begin and end.
#include <gyre/net/detail/server_core.hpp>

#include <gyre/exec/fd_watch.hpp>
#include <gyre/net/detail/listener.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace gyre::net {

using std::memory_order_relaxed;

/// Accepts the connections of one listening socket for a shard, which may destroy it in each call.
///
/// | state     | first hold | no hold   | accept succeeded | accept failed | pause over    |
/// |-----------|------------|-----------|------------------|---------------|---------------|
/// | accepting | held       | -         | calls the shard  | pausing       | -             |
/// | held      | -          | accepting | calls the shard  | pausing       | -             |
/// | pausing   | pausing    | pausing   | calls the shard  | pausing       | as holds say  |
///
/// Pauses are the accept_policy's. A request that is being cancelled may still complete.
///
/// Thread-safety: none; belongs to the loop's thread.
class tcp_server::core::acceptor {
 public:
  /// `listening` listens already. Throws what attaching throws.
  acceptor(shard& receiver, socket listening, bool is_own)
      : shard_(receiver),
        is_own_(is_own),
        descriptor_(receiver.loop(), listening.release(), io::handle_kind::socket),
        // A loop that is busy must not keep connections from others, nor may a server exceed its
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
    const bool accepting = request_.under_way();
    if (!may_accept && accepting) descriptor_.cancel(request_);
    // A repeating request does not complete at once.
    if (may_accept && !accepting) static_cast<void>(descriptor_.start(request_));
  }

  /// Whether no connection is left in its queue that is the server's own.
  bool is_drained() noexcept {
    return !is_own_ || shard_.holds_.has(hold::paused) ||
           !descriptor_.io().has_arrivals(descriptor_.handle());
  }
  bool is_accepting() const noexcept { return request_.under_way(); }

 private:
  struct accept_any final : io::accept_request {
    accept_any(acceptor& by, bool ahead) noexcept
        : accept_request(by.descriptor_.handle(), &acceptor::on_accepted,
                         io::repeat::until_cancelled, ahead),
          self(&by) {}
    acceptor* self;
  };

  static void on_accepted(io::request& request, io::result result) {
    auto& accepting = static_cast<accept_any&>(request);
    acceptor& self = *accepting.self;
    if (!result) return self.pause(result.error());
    self.policy_.reset();
    unique_fd connection(result.fd());
    self.shard_.accepted(std::move(connection), detail::peer_of(accepting));
  }
  void pause(std::error_code error) {
    const auto pause = policy_.begin_pause(descriptor_.fd(), error.value());
    retry_.start_after(pause.length);
    start_or_cancel();
    shard_.accepting_paused(error, pause);
  }

  shard& shard_;
  const bool is_own_;
  io::descriptor descriptor_;
  accept_any request_;
  timer retry_;  // active: pausing
  detail::accept_policy policy_;
};

/// Takes the header of the PROXY protocol, and not a byte more, off an accepted connection first.
///
/// Thread-safety: none; belongs to the loop's thread.
class tcp_server::core::proxy_handshake {
 public:
  /// Throws std::system_error, std::bad_alloc if the loop cannot watch the connection.
  proxy_handshake(shard& receiver, unique_fd connection, const endpoint& proxy)
      : shard_(receiver),
        proxy_(proxy),
        connection_(std::move(connection)),
        watch_(receiver.loop(), connection_.get(), [this](readiness) { read(); }),
        deadline_(receiver.loop(), [this] { shard_.handshake_ended(*this, std::nullopt); }) {
    watch_.start(readiness::readable);
    deadline_.start_after(receiver.core_.options.proxy_protocol.timeout);
  }
  proxy_handshake(const proxy_handshake&) = delete;
  proxy_handshake& operator=(const proxy_handshake&) = delete;

  /// The connection, which is watched no longer.
  unique_fd release() noexcept {
    watch_.stop();
    return std::move(connection_);
  }
  const endpoint& proxy() const noexcept { return proxy_; }

 private:
  // How many bytes more belong to the header whatever they are; zero: those up to the line's end.
  std::size_t sure_to_be_header() const noexcept {
    constexpr std::size_t shortest_1 = 15;  // "PROXY UNKNOWN\r\n"
    constexpr std::size_t fixed_2 = 16;
    if (header_.size() < shortest_1) return shortest_1 - header_.size();
    if (header_.front() == std::byte{'P'}) return 0;
    if (header_.size() < fixed_2) return fixed_2 - header_.size();
    const std::size_t said =
        std::to_integer<std::size_t>(header_[14]) << 8 | std::to_integer<std::size_t>(header_[15]);
    return fixed_2 + said - header_.size();
  }

  // As recv(2): what was read stands behind the header.
  std::ptrdiff_t read_some() {
    const std::size_t before = header_.size();
    std::size_t wanted = sure_to_be_header();
    if (wanted == 0) {
      std::array<char, 107> seen;  // version 1's longest header
      const ssize_t count = ::recv(connection_.get(), seen.data(), seen.size(), MSG_PEEK);
      if (count <= 0) return count;
      const std::string_view text(seen.data(), static_cast<std::size_t>(count));
      wanted = std::min(text.find('\n'), text.size() - 1) + 1;
    }
    header_.resize(before + wanted);
    const ssize_t count = ::recv(connection_.get(), header_.data() + before, wanted, 0);
    const int error = errno;
    header_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    errno = error;
    return count;
  }

  // Its end destroys it.
  void read() {
    const std::size_t limit = shard_.core_.options.proxy_protocol.limit;
    for (;;) {
      std::optional<proxy_header> header;
      try {
        const std::ptrdiff_t count = read_some();
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
        parsed_proxy_header parsed = parse_proxy_header(header_, limit);
        if (count > 0 && parsed && !*parsed) continue;
        if (count > 0 && parsed) header = std::move(*parsed);
      } catch (const std::bad_alloc&) {
        header.reset();
      }
      return shard_.handshake_ended(*this, std::move(header));
    }
  }

  shard& shard_;
  const endpoint proxy_;
  unique_fd connection_;
  std::vector<std::byte> header_;  // the part that has come
  fd_watch watch_;
  timer deadline_;
};

// --- The shard ---

tcp_server::core::shard::shard(core& whole, event_loop& loop)
    : connection_group(loop, whole.handlers, whole.options.connections, whole.limits_of_one()),
      core_(whole) {}
tcp_server::core::shard::~shard() = default;

void tcp_server::core::shard::catch_up() {
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  set_hold(hold::full, core_.is_full());
  if (stage_ != stop_stage::none) drain_acceptors();
  core_.call_one_done();
}

void tcp_server::core::shard::open(socket listening, bool is_own) {
  if (stage_ == stop_stage::none) acceptors_.emplace_back(*this, std::move(listening), is_own);
}

void tcp_server::core::shard::set_hold(hold why, bool held) noexcept {
  held ? holds_.insert(why) : holds_.erase(why);
  for (acceptor& each : acceptors_) each.start_or_cancel();
}

void tcp_server::core::shard::accepted(unique_fd connection, const endpoint& peer) {
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  if (stage_ != stop_stage::none) core_.catch_up_later(*this);
  core_.accepted_.fetch_add(1, memory_order_relaxed);
  const std::size_t taken = core_.take_slot(*this);
  if (taken >= core_.options.max_connections) set_hold(hold::full, core_.is_full());
  if (taken > core_.options.max_connections) {
    core_.refused_.fetch_add(1, memory_order_relaxed);
    return core_.release_slot();
  }
  shard& chosen = core_.choose_for(peer, *this);
  chosen.assigned.fetch_add(1, memory_order_relaxed);
  if (&chosen == this) return adopt_accepted(std::move(connection), peer);
  try {
    chosen.loop().post([target = core_.shared(chosen), connection = std::move(connection),
                        peer]() mutable { target->adopt_accepted(std::move(connection), peer); });
  } catch (const std::bad_alloc&) {
    chosen.refuse_assigned();
  }
}

void tcp_server::core::shard::adopted(unique_fd connection, const endpoint& peer) {
  if (stage_ == stop_stage::none) return accepted(std::move(connection), peer);
  core_.accepted_.fetch_add(1, memory_order_relaxed);
  core_.refused_.fetch_add(1, memory_order_relaxed);
}

void tcp_server::core::shard::adopt_accepted(unique_fd connection, const endpoint& peer) {
  // After the server's end the other loops may be gone, to which releasing the slot would post.
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  const auto& trusted = core_.options.proxy_protocol.trusted;
  if (!trusted || stage_ == stop_stage::impatient) return serve(std::move(connection), peer);
  bool is_proxy = false;
  try {
    is_proxy = trusted(peer);
  } catch (...) {
    refuse_assigned();
    throw;
  }
  if (!is_proxy) return serve(std::move(connection), peer);
  try {
    handshakes_.emplace_back(*this, std::move(connection), peer);
  } catch (...) {  // no memory, or too many descriptors watched
    refuse_assigned();
  }
}

void tcp_server::core::shard::handshake_ended(proxy_handshake& ended,
                                              std::optional<proxy_header> header) {
  unique_fd connection = ended.release();
  const endpoint proxy = ended.proxy();
  handshakes_.remove_if([&](const proxy_handshake& each) { return &each == &ended; });
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  if (!header) {
    connection.reset();
    return refuse_assigned();
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
  if (!core_.address_limits_.admit(peer, loop().recent_time())) {
    core_.limited_.fetch_add(1, memory_order_relaxed);
    connection.reset();
  } else {
    if (core_.options.transport == nullptr || stage_ == stop_stage::impatient) {
      return begin_connection(std::move(connection), peer, nullptr);
    }
    if (begin_handshake(std::move(connection), peer)) return;
    core_.address_limits_.release(peer);
  }
  proxy_header_.reset();
  refuse_assigned();
}

bool tcp_server::core::shard::begin_handshake(unique_fd connection, const endpoint& peer) {
  std::unique_ptr<layer> protocol;
  try {
    protocol = core_.options.transport->make_layer({});
    if (!protocol->is_established()) {
      shake_hands(std::move(connection), peer, std::move(protocol));
      return true;
    }
  } catch (const std::system_error& error) {
    core_.failed_handshakes_.fetch_add(1, memory_order_relaxed);
    core_.options.transport->handshake_failed(peer, error.code(), nullptr);
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  begin_connection(std::move(connection), peer, std::move(protocol));
  return true;
}

void tcp_server::core::shard::shake_hands(unique_fd connection, const endpoint& peer,
                                          std::unique_ptr<layer> protocol) {
  arriving& begun = arriving_.emplace_back(peer, std::exchange(proxy_header_, std::nullopt));
  try {
    begun.handshake.emplace(*this, std::move(connection), std::move(protocol),
                            [this, &begun](std::error_code why) { transport_ended(begun, why); });
  } catch (...) {
    arriving_.pop_back();
    throw;
  }
  begun.handshake->start();
}

void tcp_server::core::shard::transport_ended(arriving& ended, std::error_code why) {
  unique_fd connection = ended.handshake->release();
  std::unique_ptr<layer> protocol = ended.handshake->take_layer();
  const endpoint peer = ended.peer;
  std::optional<proxy_header> header = std::move(ended.header);
  arriving_.remove_if([&](const arriving& each) { return &each == &ended; });
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  if (!why) {
    proxy_header_ = std::move(header);
    return begin_connection(std::move(connection), peer, std::move(protocol));
  }
  connection.reset();
  core_.failed_handshakes_.fetch_add(1, memory_order_relaxed);
  core_.address_limits_.release(peer);
  refuse_assigned();
  core_.options.transport->handshake_failed(peer, why, protocol.get());
}

void tcp_server::core::shard::begin_connection(unique_fd connection, const endpoint& peer,
                                               std::unique_ptr<layer> protocol) {
  const std::uint64_t id = core_.next_id_.fetch_add(1, memory_order_relaxed) + 1;
  if (stage_ == stop_stage::impatient) {
    connection.reset();
  } else if (adopt(std::move(connection), peer, id, std::move(protocol))) {
    return;
  }
  core_.address_limits_.release(peer);
  proxy_header_.reset();
  refuse_assigned();
}

void tcp_server::core::shard::connection_ends(tcp_connection& ended) noexcept {
  core_.address_limits_.release(ended.peer_endpoint());
}

void tcp_server::core::shard::refuse_assigned() noexcept {
  core_.refused_.fetch_add(1, memory_order_relaxed);
  release_assigned();
}

void tcp_server::core::shard::accepting_paused(std::error_code error,
                                               const detail::accept_policy::pause& pause) {
  const detail::callback_gate::pass passing(gate());
  core_.accept_errors_.fetch_add(1, memory_order_relaxed);
  core_.refused_.fetch_add(pause.refused, memory_order_relaxed);
  if (passing && pause.first && core_.handlers.accept_error) core_.handlers.accept_error(error);
}

void tcp_server::core::shard::release_assigned() noexcept {
  assigned.fetch_sub(1, memory_order_relaxed);
  core_.release_slot();
}

void tcp_server::core::shard::connection_gone() { release_assigned(); }

// --- Its end ---

void tcp_server::core::shard::stop(std::chrono::nanoseconds timeout) {
  const steady_time stop_by = loop().deadline_after(timeout);
  const bool begins = stage_ == stop_stage::none;
  if (begins) {
    stage_ = stop_stage::begun;
    stop_by_ = stop_by;
    grace_ends_ = loop().deadline_after(core_.options.stop_grace);
    stop_timer_.emplace(loop(), [this] { advance_stop(); });
  }
  stop_by_ = std::min(stop_by_, stop_by);
  grace_ends_ = std::min(grace_ends_, stop_by_);
  // First: the calls below may throw what callbacks throw.
  stop_timer_->start_at(stage_ == stop_stage::begun ? grace_ends_ : stop_by_);
  if (!begins) return limit_closing(closed_by::closing, timeout);
  drain_acceptors();
  begin_to_drain();
}

void tcp_server::core::shard::advance_stop() {
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  const bool is_over = loop().now() >= stop_by_;
  if (!is_over) stop_timer_->start_at(stop_by_);
  if (stage_ == stop_stage::begun) {
    stage_ = stop_stage::impatient;
    const std::size_t handshakes = handshakes_.size() + arriving_.size();
    for (const arriving& each : arriving_) core_.address_limits_.release(each.peer);
    acceptors_.clear();
    handshakes_.clear();
    arriving_.clear();
    for (std::size_t i = 0; i < handshakes; ++i) release_assigned();
    note_accepting_ended();
    if (!is_over) return end_patience();
  }
  if (is_over) limit_closing(closed_by::all, std::chrono::nanoseconds{0});
}

// The peers of connections in the queue of a socket have connected, and may have sent.
void tcp_server::core::shard::drain_acceptors() {
  acceptors_.remove_if([](acceptor& each) { return each.is_drained(); });
  if (acceptors_.empty()) return note_accepting_ended();
  // Where accepting is held, or pauses, the next connection leads here.
  if (std::ranges::any_of(acceptors_, &acceptor::is_accepting)) core_.catch_up_later(*this);
}

void tcp_server::core::shard::note_accepting_ended() noexcept {
  if (!std::exchange(accepting_ended_, true)) core_.finish_one();
}

void tcp_server::core::shard::connection_drained(tcp_connection& drained) {
  if (auto& stopping = core_.handlers.stopping) return stopping(drained);
  const std::chrono::nanoseconds left = stop_by_ - std::min(stop_by_, loop().now());
  drained.close(left, left);
}

void tcp_server::core::shard::close_others() noexcept {
  acceptors_.clear();
  handshakes_.clear();
  arriving_.clear();
  stop_timer_.reset();
}

}  // namespace gyre::net
