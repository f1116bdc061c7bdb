// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_client.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/exponential_backoff.hpp>
#include <gyre/net/detail/client_core.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <stdexcept>

namespace gyre::net {
namespace {

// So that other tasks of the loop get their turn.
constexpr std::size_t commands_at_once = 64;

tcp_client_options checked(tcp_client_options options) {
  using gyre::detail::require_not_negative;
  gyre::detail::require_positive(options.connect_timeout, "gyre::net::tcp_client: connect_timeout");
  require_not_negative(options.initial_delay, "gyre::net::tcp_client: initial_delay");
  require_not_negative(options.longest_delay, "gyre::net::tcp_client: longest_delay");
  require_not_negative(options.resolution_delay, "gyre::net::tcp_client: resolution_delay");
  detail::require(options.most_attempts > 0, "gyre::net::tcp_client: most_attempts is zero");
  return options;
}

}  // namespace

tcp_client::core::core(event_loop& loop, tcp_client_options options)
    : detail::client_settings{.client_options = checked(std::move(options)), .client_handlers = {}},
      connection_group(loop, client_handlers, client_options.connections, {}),
      posted(client_options.connections.output_limit),
      random_(client_options.seed ? *client_options.seed : gyre::detail::random_seed()) {
  connect_failed_handler = [this](std::error_code why, std::size_t attempts, bool last) {
    if (attempts == 1 || last) print_failure(why);
  };
}

void tcp_client::core::print_failure(std::error_code why) const noexcept try {
  const std::string server = host_ ? host_->name : server_.to_string();
  std::fprintf(stderr, "gyre: %s: connect %s: %s\n", client_options.name.c_str(), server.c_str(),
               why.message().c_str());
} catch (const std::bad_alloc&) {
  return;  // no memory for the line
}

void tcp_client::core::check_settable() const {
  // relaxed: who sets handlers in time does so before it calls connect().
  if (in_use.load(std::memory_order_relaxed)) {
    throw std::logic_error("gyre::net::tcp_client: a handler is set after connect()");
  }
}

tcp_client_metrics tcp_client::core::metrics() const noexcept {
  return {.attempts = attempts_.get(),
          .failures = failed_.get(),
          .connected = succeeded_.get(),
          .traffic = connection_group::metrics()};
}

void tcp_client::core::post_commands() {
  loop().post([self = shared_from_this()] { self->run_commands(); });
}

void tcp_client::core::run_commands() {
  std::size_t left = commands_at_once;
  while (auto next = commands.take()) {
    std::exception_ptr thrown;
    try {
      const detail::callback_gate::pass passing(gate());
      if (passing) (*next)(*this);
    } catch (...) {
      thrown = std::current_exception();
    }
    if (!thrown && --left > 0) continue;
    try {
      post_commands();
    } catch (const std::bad_alloc&) {  // then in this turn
      if (!thrown) continue;
      run_commands();
    }
    if (thrown) std::rethrow_exception(thrown);
    return;
  }
}

void tcp_client::core::connect(const endpoint& server) {
  if (!host_ && server == server_ && is_connected_to_target()) return;
  set_target(std::nullopt);
  server_ = server;
  if (connection_ == nullptr) attempt();
}

void tcp_client::core::connect(resolver* names, std::string host, service port) {
  if (host_ && host == host_->name && port.port() == host_->port.port() && is_connected_to_target())
    return;
  set_target(named_host{names, std::move(host), port});
  if (connection_ == nullptr) attempt();
}

void tcp_client::core::set_target(std::optional<named_host> host) {
  reset_target();
  host_ = std::move(host);
  wanted_ = true;
  failures_ = fruitless_ = 0;
  if (connection_ == nullptr) return;
  reconnect_at_once_ = true;
  connection_->close();
}

void tcp_client::core::disconnect() noexcept {
  reset_target();
  kept_ = io::buffer();
  if (connection_ != nullptr) connection_->close();
}

void tcp_client::core::reset_target() noexcept {
  ++target_changes_;
  wanted_ = reconnect_at_once_ = false;
  end_lookups();
  connecting_.reset();
  handshake_.reset();
  retry_.reset();
}

bool tcp_client::core::send(std::span<const std::byte> bytes) {
  if (connection_ != nullptr && connection_->can_send()) return connection_->send(bytes);
  const std::size_t limit = client_options.keep_limit;
  if (bytes.size() > limit || kept_.size() > limit - bytes.size()) return false;
  kept_.append(bytes);
  return true;
}

// A retry may be due between the client's end and that of its core: then its resolver may be gone.
void tcp_client::core::attempt() {
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  attempts_.add(1);
  candidates_ = {};
  last_failure_.clear();
  if (!host_) return try_server();
  try {
    const named_host& host = *host_;
    const auto on_result = [this](const resolve_result& found) { resolved(found); };
    resolver& names = names_of(host);
    first_family_ = detail::resolver_access::resolve_first_family(
        names, host.name, host.port, client_options.resolution_delay, on_result);
    all_addresses_ = names.resolve(host.name, host.port, on_result);
  } catch (const std::bad_alloc&) {
    end_lookups();
    fail_attempt_later(detail::no_memory());
  } catch (const std::system_error& error) {  // of a resolver's construction
    fail_attempt_later(error.code());
  }
}

// Reported by the loop, as any failure.
void tcp_client::core::fail_attempt_later(std::error_code why) {
  retry_.emplace(loop(), [this, why] { attempt_failed(why); });
  retry_->start_after({});
}

resolver& tcp_client::core::names_of(const named_host& host) {
  if (host.names != nullptr) return *host.names;
  return own_names_ ? *own_names_ : own_names_.emplace(loop());
}

void tcp_client::core::end_lookups() noexcept {
  first_family_.cancel();
  all_addresses_.cancel();
}

void tcp_client::core::resolved(const resolve_result& found) {
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  if (!found && !last_failure_) last_failure_ = found.error();
  try {
    if (found) candidates_.add(*found);
  } catch (const std::bad_alloc&) {
    last_failure_ = detail::no_memory();
  }
  if (!is_attempting()) try_next();
}

void tcp_client::core::try_next() {
  if (const std::optional<endpoint> next = candidates_.next()) {
    server_ = *next;
    try_server();
  } else if (!all_addresses_.active()) {
    attempt_failed(last_failure_);
  }
}

tcp_client::core::attempt_under_way::attempt_under_way(core& by)
    : deadline(by.loop(), [&by] {
        by.end_connecting(
            by.connecting_->early_result.value_or(io::result::failure(io::errc::connect_timeout)));
      }) {}

// Ends in a turn of the loop, never in here.
void tcp_client::core::try_server() {
  attempt_under_way& attempt = connecting_.emplace(*this);
  attempt.early_result = start_connecting();
  attempt.deadline.start_after(attempt.early_result ? duration::zero()
                                                    : client_options.connect_timeout);
}

// The result, if that is certain already.
std::optional<io::result> tcp_client::core::start_connecting() {
  try {
    io::descriptor& on = connecting_->descriptor.emplace(
        loop(), detail::open_to_connect(server_, client_options.local).release(),
        io::handle_kind::stream_socket);
    return on.start(connecting_->request.emplace(on.handle(), *this));
  } catch (const std::system_error& error) {
    return io::result::failure(error.code().value());
  } catch (const std::bad_alloc&) {
    return io::result::failure(ENOMEM);
  }
}

void tcp_client::core::on_connected(io::request& request, io::result result) {
  static_cast<connect_request&>(request).self->end_connecting(result);
}

void tcp_client::core::end_connecting(io::result result) {
  unique_fd connected;
  if (result) connected = connecting_->descriptor->release();
  connecting_.reset();
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  const std::error_code error =
      result ? detail::check_connected(socket_ref(connected.get())) : result.error();
  if (error) {
    connected.reset();
    last_failure_ = error;
    return try_next();
  }
  if (server_.is_ip()) detail::apply(options(), socket_ref(connected.get()));
  if (client_options.transport != nullptr) return begin_handshake(std::move(connected));
  begin_connection(std::move(connected), nullptr);
}

void tcp_client::core::begin_handshake(unique_fd connected) {
  std::error_code failed;
  std::unique_ptr<layer> protocol;
  try {
    const std::string host = host_             ? host_->name
                             : server_.is_ip() ? server_.address().to_string()
                                               : std::string();
    protocol = detail::make_layer(*client_options.transport, host);
    if (!protocol->is_established()) {
      handshake_.emplace(*this, std::move(connected), std::move(protocol),
                         [this](std::error_code why) { end_handshake(why); });
      return handshake_->start();
    }
  } catch (const std::system_error& error) {
    failed = error.code();
  } catch (const std::bad_alloc&) {
    failed = detail::no_memory();
  }
  if (!failed) return begin_connection(std::move(connected), std::move(protocol));
  handshake_.reset();
  last_failure_ = failed;
  try_next();
}

void tcp_client::core::end_handshake(std::error_code why) {
  unique_fd connected = handshake_->release();
  std::unique_ptr<layer> protocol = handshake_->take_layer();
  handshake_.reset();
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  if (!why) return begin_connection(std::move(connected), std::move(protocol));
  connected.reset();
  last_failure_ = why;
  try_next();
}

void tcp_client::core::begin_connection(unique_fd connected, std::unique_ptr<layer> protocol) {
  const detail::callback_gate::pass passing(gate());
  end_lookups();
  failures_ = 0;
  succeeded_.add(1);
  if (adopt(std::move(connected), server_, succeeded_.get(), std::move(protocol))) return;
  if (passing) attempt_failed(detail::no_memory());
}

void tcp_client::core::attempt_later() {
  retry_.emplace(loop(), [this] { attempt(); });
  retry_->start_after(next_delay());
}

std::chrono::nanoseconds tcp_client::core::next_delay() noexcept {
  const exponential_backoff backoff{.initial = client_options.initial_delay,
                                    .longest = client_options.longest_delay};
  return backoff.jittered_delay(fruitless_, random_);
}

void tcp_client::core::attempt_failed(std::error_code why) {
  const detail::callback_gate::pass passing(gate());
  if (!passing) return;
  failed_.add(1);
  ++failures_;
  ++fruitless_;
  const tcp_client_options& options = client_options;
  const bool last = !options.reconnect || failures_ >= options.most_attempts;
  if (last) wanted_ = false;
  const auto retry_if_wanted = [&, changes = target_changes_] {
    if (passing && changes == target_changes_ && !last) attempt_later();
  };
  try {
    if (connect_failed_handler) connect_failed_handler(why, failures_, last);
  } catch (...) {
    retry_if_wanted();
    throw;
  }
  retry_if_wanted();
}

void tcp_client::core::connection_begins(tcp_connection& begun) {
  connection_ = &begun;
  is_connected_.set(1);
  if (!kept_.empty()) begun.send(std::exchange(kept_, io::buffer()));
}

void tcp_client::core::connection_ends(tcp_connection& ended) noexcept {
  fruitless_ = ended.metrics().bytes_received > 0 ? 1 : fruitless_ + 1;
  connection_ = nullptr;
  is_connected_.set(0);
}

void tcp_client::core::connection_gone() {
  if (!wanted_ || connection_ != nullptr || is_attempting() || all_addresses_.active()) {
    return;
  }
  if (retry_ && retry_->active()) return;
  if (std::exchange(reconnect_at_once_, false)) {
    attempt();
  } else if (client_options.reconnect) {
    attempt_later();
  } else {
    wanted_ = false;
  }
}

// --- The client ---

tcp_client::tcp_client(event_loop& loop, tcp_client_options options)
    : core_(std::make_shared<core>(loop, std::move(options))) {}
tcp_client::tcp_client(host_port server, event_loop& loop, tcp_client_options options)
    : tcp_client(loop, std::move(options)) {
  core_->constructed_for = std::move(server);
}
tcp_client::~tcp_client() { detail::connection_group::abandon(core_); }

connection_handlers& tcp_client::settable_handlers() {
  core_->check_settable();
  return core_->client_handlers;
}
tcp_client& tcp_client::on_connect_failed(
    move_only_function<void(std::error_code, std::size_t, bool)> callback) {
  core_->check_settable();
  core_->connect_failed_handler = std::move(callback);
  return *this;
}

void tcp_client::connect(const endpoint& server) {
  core_->in_use.store(true, std::memory_order_relaxed);  // relaxed: see check_settable()
  if (core_->loop().in_loop_thread()) return core_->connect(server);
  core_->commands.connect([server](core& self) { self.connect(server); },
                          [this] { core_->post_commands(); });
}
void tcp_client::connect(resolver& names, std::string host, service port) {
  connect_by_name(&names, std::move(host), port);
}
void tcp_client::connect(resolver& names, const host_port& server) {
  if (!server.is_name()) return connect(server.direct());
  connect_by_name(&names, server.host(), server.port());
}
void tcp_client::connect(const host_port& server) {
  if (!server.is_name()) return connect(server.direct());
  connect_by_name(nullptr, server.host(), server.port());
}
void tcp_client::connect() {
  if (!core_->constructed_for) {
    throw std::logic_error("gyre::net::tcp_client::connect: the constructor got no server");
  }
  connect(*core_->constructed_for);
}
void tcp_client::connect_by_name(resolver* names, std::string host, service port) {
  core_->in_use.store(true, std::memory_order_relaxed);  // relaxed: see check_settable()
  if (core_->loop().in_loop_thread()) return core_->connect(names, std::move(host), port);
  core_->commands.connect([names, host = std::move(host), port](
                              core& self) mutable { self.connect(names, std::move(host), port); },
                          [this] { core_->post_commands(); });
}
void tcp_client::disconnect() {
  if (core_->loop().in_loop_thread()) return core_->disconnect();
  core_->commands.disconnect([this] { core_->post_commands(); });
}

bool tcp_client::send(std::span<const std::byte> bytes) {
  if (core_->loop().in_loop_thread()) return core_->send(bytes);
  if (bytes.empty()) return true;
  detail::byte_quota::share share = core_->posted.take(bytes.size());
  if (!share) return false;
  io::buffer copy;
  copy.append(bytes);
  core_->commands.send(
      [copy = std::move(copy), held = std::move(share)](core& self) { self.send(copy.bytes()); },
      [this] { core_->post_commands(); });
  return true;
}

tcp_connection* tcp_client::connection() noexcept { return core_->connection(); }
bool tcp_client::connected() const noexcept { return core_->connected(); }
event_loop& tcp_client::loop() const noexcept { return core_->loop(); }
const std::string& tcp_client::name() const noexcept { return core_->client_options.name; }
tcp_client_metrics tcp_client::metrics() const noexcept { return core_->metrics(); }

}  // namespace gyre::net
