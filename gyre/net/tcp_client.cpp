// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_client.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/detail/log.hpp>
#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/base/exponential_backoff.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/net/detail/byte_quota.hpp>
#include <gyre/net/detail/client_commands.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/detail/connection_race.hpp>

#include <exception>
#include <new>
#include <stdexcept>

namespace gyre::net {
namespace {

// The limit of commands in one turn, so that other tasks of the loop get their turn.
constexpr std::size_t commands_at_once = 64;

tcp_client_options validate(tcp_client_options options) {
  using gyre::detail::require_not_negative;
  gyre::detail::require_positive(options.connect_timeout, "gyre::net::tcp_client: connect_timeout");
  require_not_negative(options.initial_delay, "gyre::net::tcp_client: initial_delay");
  require_not_negative(options.longest_delay, "gyre::net::tcp_client: longest_delay");
  require_not_negative(options.attempt_delay, "gyre::net::tcp_client: attempt_delay");
  require_not_negative(options.resolution_delay, "gyre::net::tcp_client: resolution_delay");
  detail::require(options.max_attempts > 0, "gyre::net::tcp_client: max_attempts is zero");
  return options;
}

/// The server to connect to: an endpoint, or a host whose name is looked up before each attempt.
struct client_target {
  bool is_name() const noexcept { return !direct; }
  std::string to_string() const { return is_name() ? host : direct->to_string(); }
  bool is_same_server(const client_target& other) const noexcept {
    return host == other.host && port.port() == other.port.port() && direct == other.direct;
  }

  std::string host = {};
  service port = 0;
  resolver* names = nullptr;            // null if the client has a resolver of its own
  std::optional<endpoint> direct = {};  // the endpoint; empty if `host` must be looked up
};

/// Settings to which connections refer. A base class, because they must be constructed before the
/// connection_group.
struct client_settings {
  tcp_client_options client_options;
  connection_handlers client_handlers;
};

}  // namespace

/// The connection of a client, its attempts to connect, and whether it should be connected.
///
/// Thread-safety: members belong to the loop's thread, but for those marked for any thread.
class tcp_client::core final : public client_settings,
                               public detail::connection_group,
                               public std::enable_shared_from_this<core> {
 public:
  core(event_loop& loop, tcp_client_options options);

  /// Makes the loop run `commands`. May be called from any thread.
  void post_commands();

  /// May be called from any thread.
  void request_connect(client_target server);
  void connect(client_target server);
  void disconnect() noexcept;
  void note_refusal() noexcept { was_refused_ = true; }
  bool send(std::span<const std::byte> bytes);

  tcp_connection* connection() const noexcept { return connection_; }
  /// May be called from any thread.
  bool connected() const noexcept { return is_connected_.get() != 0; }
  tcp_client_metrics metrics() const noexcept;

  /// Throws std::logic_error if the handlers may be in use. May be called from any thread.
  void check_settable() const;

  move_only_function<void(std::error_code, std::size_t, bool)> connect_failed_handler;
  std::optional<host_port> constructed_for;  // the server for connect() without arguments
  detail::byte_quota posted_bytes;           // bytes of other threads that wait for the loop
  detail::client_commands<core> commands;    // calls of other threads that wait for the loop

 private:
  void on_connection_begun(tcp_connection& connection) override;
  void on_connection_ended(tcp_connection& connection) noexcept override;
  void on_connection_gone() override;
  void close_others() noexcept override {
    reset_target();
    own_names_.reset();
  }

  void run_commands();
  void on_attempt_failed(std::error_code reason);
  void print_failure(std::error_code reason) const noexcept;
  bool is_connected_to_target() const noexcept {
    return is_wanted_ && connection_ != nullptr && connection_->can_send();
  }
  void attempt();
  void look_up_target();
  resolver& names_of_target();
  detail::attempt_settings attempt_settings() const;
  void on_attempt_ended();
  void attempt_later();
  std::chrono::nanoseconds next_delay() noexcept;
  void reset_target() noexcept;
  void end_lookups() noexcept;

  gyre::detail::atomic<bool> is_in_use_{false};  // set by the first connect()
  client_target target_;
  std::optional<resolver> own_names_;
  bool is_wanted_ = false;  // whether the client should be connected
  // Whether to connect again when the present connection has ended.
  bool must_reconnect_at_once_ = false;
  std::uint64_t target_changes_ = 0;    // counts the calls of connect() and disconnect()
  std::size_t failures_ = 0;            // how many attempts in a row have failed
  std::size_t fruitless_attempts_ = 0;  // failures_ plus the connections that were of no use
  bool has_received_ = false;           // whether the last connection has received bytes
  bool was_refused_ = false;            // whether note_refusal() was called
  tcp_connection* connection_ = nullptr;
  std::optional<detail::connection_race> race_;  // the attempt under way
  // The lookup for the addresses of one IP version, and the lookup for all addresses. Both add
  // candidates to race_: see net::connect().
  lookup first_family_;
  lookup all_addresses_;
  std::optional<timer> retry_;
  gyre::detail::splitmix64 generator_;
  io::buffer kept_output_;  // the next connection sends these bytes first
  gyre::detail::published_counter attempts_, failed_attempts_, successes_, is_connected_;
};

tcp_client::core::core(event_loop& loop, tcp_client_options options)
    : client_settings{.client_options = validate(std::move(options)), .client_handlers = {}},
      connection_group(loop, client_handlers, client_options.connections, {}),
      posted_bytes(client_options.connections.output_limit),
      generator_(client_options.seed ? *client_options.seed : gyre::detail::random_seed()) {
  connect_failed_handler = [this](std::error_code reason, std::size_t attempts, bool is_last) {
    if (attempts == 1 || is_last) print_failure(reason);
  };
}

void tcp_client::core::print_failure(std::error_code reason) const noexcept try {
  const std::string server = target_.to_string();
  gyre::detail::log(log_level::warning, "gyre: ", client_options.name, ": connect ", server, ": ",
                    reason.message());
} catch (const std::bad_alloc&) {
  return;  // without memory, the failure is not reported
}

void tcp_client::core::check_settable() const {
  // relaxed: the flag guards no data. It only detects handlers that are set too late.
  if (is_in_use_.load(std::memory_order_relaxed)) {
    throw std::logic_error("gyre::net::tcp_client: a handler is set after connect()");
  }
}

tcp_client_metrics tcp_client::core::metrics() const noexcept {
  return {.attempts = attempts_.get(),
          .failures = failed_attempts_.get(),
          .connected = successes_.get(),
          .traffic = connection_group::metrics()};
}

void tcp_client::core::post_commands() {
  loop().post([self = shared_from_this()] { self->run_commands(); });
}

void tcp_client::core::run_commands() {
  std::size_t commands_left = commands_at_once;
  while (auto command = commands.take()) {
    std::exception_ptr error;
    try {
      const detail::callback_gate::pass gate_pass(gate());
      if (gate_pass) (*command)(*this);
    } catch (...) {
      error = std::current_exception();
    }
    if (!error && --commands_left > 0) continue;
    try {
      post_commands();
    } catch (const std::bad_alloc&) {  // without memory for a post, this turn continues
      if (!error) continue;
      run_commands();
    }
    if (error) std::rethrow_exception(error);
    return;
  }
}

void tcp_client::core::request_connect(client_target server) {
  is_in_use_.store(true, std::memory_order_relaxed);  // relaxed: check_settable() explains it
  if (loop().in_loop_thread()) return connect(std::move(server));
  commands.connect(
      [target = std::move(server)](core& self) mutable { self.connect(std::move(target)); },
      [this] { post_commands(); });
}

void tcp_client::core::connect(client_target server) {
  if (server.is_same_server(target_) && is_connected_to_target()) return;
  reset_target();
  target_ = std::move(server);
  is_wanted_ = true;
  failures_ = fruitless_attempts_ = 0;
  if (connection_ == nullptr) return attempt();
  must_reconnect_at_once_ = true;
  connection_->close();
}

void tcp_client::core::disconnect() noexcept {
  reset_target();
  kept_output_ = io::buffer();
  if (connection_ != nullptr) connection_->close();
}

void tcp_client::core::reset_target() noexcept {
  ++target_changes_;
  is_wanted_ = must_reconnect_at_once_ = false;
  end_lookups();
  race_.reset();
  retry_.reset();
}

bool tcp_client::core::send(std::span<const std::byte> bytes) {
  if (connection_ != nullptr && connection_->can_send()) return connection_->send(bytes);
  const std::size_t limit = client_options.keep_limit;
  if (bytes.size() > limit || kept_output_.size() > limit - bytes.size()) return false;
  kept_output_.append(bytes);
  return true;
}

// Passes the gate first: a retry may be due between the client's end and that of its core, when its
// resolver may be gone.
void tcp_client::core::attempt() {
  const detail::callback_gate::pass gate_pass(gate());
  if (!gate_pass) return;
  attempts_.add(1);
  race_.emplace(loop(), attempt_settings(), [this] { on_attempt_ended(); });
  if (target_.is_name()) return look_up_target();
  race_->add({&*target_.direct, 1});
  race_->end_of_candidates();
}

detail::attempt_settings tcp_client::core::attempt_settings() const {
  const tcp_client_options& options = client_options;
  detail::attempt_settings settings{.connecting = {.socket = {}},
                                    .delay = options.attempt_delay,
                                    .time_limit = options.connect_timeout,
                                    .transport = options.transport.get(),
                                    .host = target_.host};
  if (options.local.family() != address_family::none) settings.connecting.local = options.local;
  if (target_.is_name() || target_.direct->is_ip()) {
    socket_options& socket = settings.connecting.socket;
    if (options.connections.no_delay) socket.no_delay = true;
    if (options.connections.keep_alive) socket.keep_alive = keep_alive_options();
  }
  return settings;
}

void tcp_client::core::look_up_target() {
  std::error_code lookup_error;
  try {
    resolver& names = names_of_target();
    first_family_ = detail::resolver_access::resolve_first_family(
        names, target_.host, target_.port, client_options.resolution_delay,
        [this](const resolve_result& addresses) {
          if (addresses) race_->add(*addresses);
        });
    all_addresses_ =
        names.resolve(target_.host, target_.port, [this](const resolve_result& addresses) {
          if (addresses) race_->add(*addresses);
          race_->end_of_candidates(addresses ? std::error_code() : addresses.error());
        });
    return;
  } catch (const std::bad_alloc&) {
    lookup_error = detail::no_memory();
  } catch (const std::system_error& error) {  // the constructor of a resolver may throw
    lookup_error = error.code();
  }
  end_lookups();
  race_->end_of_candidates(lookup_error);
}

resolver& tcp_client::core::names_of_target() {
  if (target_.names != nullptr) return *target_.names;
  return own_names_ ? *own_names_ : own_names_.emplace(loop());
}

void tcp_client::core::end_lookups() noexcept {
  first_family_.cancel();
  all_addresses_.cancel();
}

void tcp_client::core::on_attempt_ended() {
  const detail::callback_gate::pass gate_pass(gate());
  if (!gate_pass) return;
  auto outcome = race_->take_result();
  end_lookups();
  race_.reset();
  if (!outcome) return on_attempt_failed(outcome.error());
  failures_ = 0;
  successes_.add(1);
  const bool is_adopted = adopt(outcome->stream.release(), outcome->peer, successes_.get(),
                                std::move(outcome->protocol));
  if (!is_adopted && gate_pass) on_attempt_failed(detail::no_memory());
}

void tcp_client::core::attempt_later() {
  retry_.emplace(loop(), [this] { attempt(); });
  retry_->start_after(next_delay());
}

std::chrono::nanoseconds tcp_client::core::next_delay() noexcept {
  const exponential_backoff backoff{.initial = client_options.initial_delay,
                                    .longest = client_options.longest_delay};
  return backoff.jittered_delay(fruitless_attempts_, generator_);
}

void tcp_client::core::on_attempt_failed(std::error_code reason) {
  const detail::callback_gate::pass gate_pass(gate());
  if (!gate_pass) return;
  failed_attempts_.add(1);
  ++failures_;
  ++fruitless_attempts_;
  const tcp_client_options& options = client_options;
  const bool is_last = !options.reconnect || failures_ >= options.max_attempts;
  if (is_last) is_wanted_ = false;
  const auto retry_if_wanted = [&, changes = target_changes_] {
    if (gate_pass && changes == target_changes_ && !is_last) attempt_later();
  };
  try {
    if (connect_failed_handler) connect_failed_handler(reason, failures_, is_last);
  } catch (...) {
    retry_if_wanted();
    throw;
  }
  retry_if_wanted();
}

void tcp_client::core::on_connection_begun(tcp_connection& connection) {
  connection_ = &connection;
  was_refused_ = false;
  is_connected_.set(1);
  if (!kept_output_.empty()) connection.send(std::exchange(kept_output_, io::buffer()));
}

void tcp_client::core::on_connection_ended(tcp_connection& connection) noexcept {
  has_received_ = connection.metrics().bytes_received > 0;
  connection_ = nullptr;
  is_connected_.set(0);
}

void tcp_client::core::on_connection_gone() {
  if (!is_wanted_ || connection_ != nullptr || race_) return;
  fruitless_attempts_ = has_received_ && !was_refused_ ? 1 : fruitless_attempts_ + 1;
  if (retry_ && retry_->active()) return;
  if (std::exchange(must_reconnect_at_once_, false)) {
    attempt();
  } else if (client_options.reconnect) {
    attempt_later();
  } else {
    is_wanted_ = false;
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

void tcp_client::connect(const endpoint& server) { core_->request_connect({.direct = server}); }
void tcp_client::connect(resolver& names, std::string host, service port) {
  core_->request_connect({.host = std::move(host), .port = port, .names = &names});
}
void tcp_client::connect(resolver& names, const host_port& server) {
  if (!server.is_name()) return connect(server.direct());
  connect(names, server.host(), server.port());
}
void tcp_client::connect(const host_port& server) {
  if (!server.is_name()) return connect(server.direct());
  core_->request_connect({.host = server.host(), .port = server.port()});
}
void tcp_client::connect() {
  if (!core_->constructed_for) {
    throw std::logic_error("gyre::net::tcp_client::connect: the constructor got no server");
  }
  connect(*core_->constructed_for);
}
void tcp_client::disconnect() {
  if (core_->loop().in_loop_thread()) return core_->disconnect();
  core_->commands.disconnect([this] { core_->post_commands(); });
}

bool tcp_client::send(std::span<const std::byte> bytes) {
  if (core_->loop().in_loop_thread()) return core_->send(bytes);
  if (bytes.empty()) return true;
  detail::byte_quota::share share = core_->posted_bytes.take(bytes.size());
  if (!share) return false;
  io::buffer copy;
  copy.append(bytes);
  core_->commands.send([copy = std::move(copy),
                        share_of_quota = std::move(share)](core& self) { self.send(copy.bytes()); },
                       [this] { core_->post_commands(); });
  return true;
}

void tcp_client::note_refusal() noexcept { core_->note_refusal(); }
tcp_connection* tcp_client::connection() noexcept { return core_->connection(); }
bool tcp_client::connected() const noexcept { return core_->connected(); }
event_loop& tcp_client::loop() const noexcept { return core_->loop(); }
const std::string& tcp_client::name() const noexcept { return core_->client_options.name; }
tcp_client_metrics tcp_client::metrics() const noexcept { return core_->metrics(); }

void write_metrics(metrics::exposition& output, const tcp_client_metrics& counts) {
  const auto& [attempts, failures, connected, traffic] = counts;
  output.add_counter("gyre_tcp_client_attempts_total", "Attempts to connect.", attempts);
  output.add_counter("gyre_tcp_client_failures_total", "Attempts that failed.", failures);
  output.add_counter("gyre_tcp_client_connected_total", "Attempts that succeeded.", connected);
  write_metrics(output, traffic);
}

}  // namespace gyre::net
