// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/server_link.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/detail/error_code_of.hpp>
#include <gyre/base/exponential_backoff.hpp>
#include <gyre/engines/detail/connection_settings.hpp>
#include <gyre/engines/nats/detail/subject.hpp>
#include <gyre/engines/nats/error.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/coroutine_loop.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>

#include <algorithm>
#include <chrono>
#include <new>
#include <stdexcept>
#include <utility>

namespace gyre::nats::detail {
namespace {

// Output above this size is sent at once, so that the server begins while the turn continues, and a
// turn of many messages does not need as much memory as all of them.
constexpr std::size_t flush_size = 32 * 1024;
// The longest time for which an incomplete batch of requests (a flight) waits for more. It is
// longer than a server needs to read the last flight, which it would otherwise take together with
// this one, and shorter than the time until the replies come.
constexpr std::chrono::microseconds flight_delay{400};
// The number of posted flushes in a row that find no new output before the output is sent: a call
// at the front of the line appends its message within this many tasks.
constexpr std::size_t max_idle_flushes = 2;
// The pause after a refused login, so that a client with wrong credentials does not log in again
// with every call.
constexpr std::chrono::seconds refusal_time{1};

client_options validate(const client_options& options) {
  const auto require = [](bool is_valid, const char* problem) {
    if (!is_valid) throw std::invalid_argument(std::string("gyre::nats::client: ") + problem);
  };
  require(options.max_in_flight > 0, "max_in_flight must be at least 1");
  require(options.max_waiting > 0, "max_waiting must be at least 1");
  require(options.max_message > 0, "max_message must be at least 1");
  require(options.high_water > 1, "high_water must be at least 2");
  require(options.max_connect_attempts > 0, "max_connect_attempts must be at least 1");
  require(options.max_pings > 0, "max_pings must be at least 1");
  require(options.ping_interval > duration::zero(), "ping_interval must be above zero");
  require(!options.user.empty() || options.password.empty(), "a password needs a user");
  gyre::detail::require_positive(options.connect_timeout, "gyre::nats::client: connect_timeout");
  gyre::detail::require_not_negative(options.initial_delay, "gyre::nats::client: initial_delay");
  gyre::detail::require_not_negative(options.longest_delay, "gyre::nats::client: longest_delay");
  check_subject(options.inbox_prefix);
  return options;
}

client_options with_tls(client_options options, const std::vector<server_address>& servers) {
  const bool must_encrypt = std::ranges::any_of(servers, &server_address::demands_tls);
  if (must_encrypt && !options.tls) options.tls = tls::tls_context::default_client();
  return options;
}

net::tcp_client_options tcp_options(const client_options& options,
                                    std::shared_ptr<const net::transport> transport) {
  net::tcp_client_options client_settings;
  client_settings.name = server_link::client_name;
  client_settings.connect_timeout = options.connect_timeout;
  client_settings.transport = std::move(transport);
  net::connection_options& connections = client_settings.connections;
  connections.high_water = options.high_water;
  // Other mechanisms replace these limits: high_water bounds the output, max_message the input, and
  // PING finds a dead server.
  engines::detail::apply_client_settings(connections);
  return client_settings;
}

bool is_refusal(std::error_code code) noexcept {
  return code == errc::authorization_violation || code == errc::tls_required ||
         code == errc::tls_not_available || code == errc::bad_credentials ||
         code == errc::nonce_missing;
}

}  // namespace

server_link::counted_wait::counted_wait(server_link& link) : count_(link.waiting_calls_) {
  if (count_ >= link.options_.max_waiting) {
    throw std::system_error(make_error_code(io::errc::waiting_limit), link.describe());
  }
  ++count_;
}

server_link::server_link(event_loop& loop, const std::vector<std::string>& servers,
                         const client_options& options)
    : loop_(loop),
      options_(with_tls(validate(options), server_address::parse_all(servers))),
      servers_(server_address::parse_all(servers), options.shuffle_servers, options.max_servers,
               options.seed.value_or(gyre::detail::random_seed())),
      generator_(options.seed.value_or(gyre::detail::random_seed())),
      attempt_timer_(loop, [this] { begin_attempt(); }),
      parser_(options.max_message),
      login_timer_(loop, [this] { fail(make_error_code(errc::no_reply)); }),
      health_timer_(loop, [this] { check_health(); }),
      flight_timer_(loop, [this] { end_wait_for_requests(); }) {
  if (options_.tls)
    encryption_ = std::make_shared<tls_transport>(*options_.tls, options_.tls_first);
  client_.emplace(loop, tcp_options(options_, encryption_));
  // Each of these handlers may run a handler of the program, which may destroy the client: `self`
  // keeps the link alive.
  client_->on_connection([this](net::tcp_connection&) {
    const auto self = shared_from_this();
    on_connected();
  });
  client_->on_message([this](net::tcp_connection&, io::input& input) {
    const auto self = shared_from_this();
    on_input(input);
    if (flight_timer_.active() && !may_wait_for_requests()) flush();
  });
  // on_high_water is not set: its handler could cancel on_low_water.
  client_->on_low_water([this](net::tcp_connection&) { update_writable(); });
  client_->on_close([this](net::tcp_connection&, std::error_code cause) {
    const auto self = shared_from_this();
    on_closed(cause);
  });
  client_->on_connect_failed([this](std::error_code cause, std::size_t, bool) {
    const auto self = shared_from_this();
    on_attempt_failed(error_of(cause, {}), is_refusal(cause));
  });
}

std::string server_link::describe() const {
  return std::string(client_name) + ' ' + servers_.current().address.server.to_string();
}

// --- Calls ---

task<> server_link::wait_until_ready() {
  const task_context& context = co_await gyre::detail::this_context();
  if (context.stop.stop_requested()) gyre::detail::throw_cancelled(context);
  net::detail::require_loop(loop_, context, client_name);
  const std::shared_ptr<server_link> self = shared_from_this();
  const counted_wait own_wait(*this);
  while (!is_ready()) {
    task<> wait_task = wait_for_attempt();
    co_await std::move(wait_task);
  }
}

task<> server_link::log_in() {
  const task_context& context = co_await gyre::detail::this_context();
  if (context.stop.stop_requested()) gyre::detail::throw_cancelled(context);
  net::detail::require_loop(loop_, context, client_name);
  const std::shared_ptr<server_link> self = shared_from_this();
  const counted_wait own_wait(*this);
  const std::uint64_t old_logins = logins_;
  while (!is_ready() && logins_ == old_logins) {
    task<> wait_task = wait_for_attempt();
    co_await std::move(wait_task);
  }
}

task<> server_link::wait_for_attempt() {
  if (is_closed()) throw_closed();
  connect();
  if (attempt_ == nullptr) attempt_ = std::make_shared<attempt>();
  const std::shared_ptr<attempt> current_attempt = attempt_;
  co_await current_attempt->end_event.wait();
  if (current_attempt->error) std::rethrow_exception(current_attempt->error);
}

bool server_link::has_room(std::size_t size) const noexcept {
  if (is_ready()) return write_event_.is_set();
  const std::size_t limit = options_.keep_limit;
  return state_ == state::connecting && was_ready_ && size <= limit &&
         kept_output_.size() <= limit - size;
}

task<semaphore_permit> server_link::wait_for_room(std::size_t size) {
  const task_context& context = co_await gyre::detail::this_context();
  if (context.stop.stop_requested()) gyre::detail::throw_cancelled(context);
  net::detail::require_loop(loop_, context, client_name);
  const std::shared_ptr<server_link> self = shared_from_this();
  const counted_wait own_wait(*this);
  struct line_entry {
    std::size_t& count;
    explicit line_entry(std::size_t& counter) noexcept : count(counter) { ++count; }
    line_entry& operator=(line_entry&&) = delete;
    ~line_entry() { --count; }
  } const entry(in_line_);

  semaphore_permit turn = co_await line_.permit();
  while (!has_room(size)) {
    if (is_ready()) {
      co_await write_event_.wait();
      continue;
    }
    task<> wait_task = wait_for_attempt();
    co_await std::move(wait_task);
  }
  co_return turn;
}

task<> server_link::ping() {
  const std::shared_ptr<server_link> self = shared_from_this();
  task<> wait_task = wait_until_ready();
  co_await std::move(wait_task);
  const counted_wait own_wait(*this);
  ping_wait pong;
  append_ping();
  pong.number = pings_sent_;
  ping_waits_.push_back(pong);
  co_await pong.end_event.wait();
  if (pong.error) std::rethrow_exception(pong.error);
}

void server_link::throw_closed() const {
  throw std::system_error(make_error_code(io::errc::not_open), describe());
}

// --- Output ---

void server_link::append_ping() {
  output_.append("PING\r\n");
  ++pings_sent_;
  note_output();
}

void server_link::note_output() noexcept {
  if (is_ready()) has_only_requests_ = false;
  note_growth();
}

void server_link::note_request() noexcept {
  if (is_ready()) ++unsent_requests_;
  note_growth();
}

void server_link::note_growth() noexcept {
  ++appended_pieces_;
  if (!is_ready()) return;
  if (output_.size() >= flush_size) {
    has_sent_flight_ = has_only_requests_;
    return flush();
  }
  post_flush();
  update_writable();
}

void server_link::post_flush() noexcept {
  if (!posted_flush_.post(loop_, weak_from_this(), [this] { flush_turn(); })) flush();
}

void server_link::flush_turn() noexcept {
  if (must_wait_for_line()) return post_flush();
  if (!may_wait_for_requests()) return flush();
  if (flight_timer_.active()) return;
  if (!std::exchange(has_sent_flight_, false)) return flush();
  flight_timer_.start_after(flight_delay);
}

void server_link::end_wait_for_requests() noexcept {
  if (output_.empty()) has_sent_flight_ = false;  // no request came during the wait
  flush();
}

// Whether the calls in line are about to append. Each has its turn in a task after the posted
// flush, which would otherwise send one message at a time.
bool server_link::must_wait_for_line() noexcept {
  if (in_line_ == 0 || !has_room(0)) return false;
  idle_flushes_ = appended_pieces_ == appended_before_ ? idle_flushes_ + 1 : 0;
  appended_before_ = appended_pieces_;
  return idle_flushes_ <= max_idle_flushes;
}

bool server_link::may_wait_for_requests() const noexcept {
  return has_only_requests_ && unsent_requests_ > 0 && awaited_replies() > unsent_requests_;
}

void server_link::flush() noexcept {
  net::tcp_connection* const connection = client_->connection();
  if (output_.empty() || connection == nullptr) return;
  const bool is_sent = connection->send(std::move(output_));
  output_.clear();
  unsent_requests_ = 0;
  has_only_requests_ = true;
  if (is_sent) update_writable();
}

std::size_t server_link::unsent_bytes() noexcept {
  net::tcp_connection* const connection = client_->connection();
  return output_.size() + (connection != nullptr ? connection->pending_output() : 0);
}

void server_link::update_writable() noexcept {
  if (unsent_bytes() >= options_.high_water) {
    write_event_.reset();
  } else {
    write_event_.set();
  }
}

// --- Attempts ---

void server_link::connect() {
  if (state_ == state::closed) throw_closed();
  if (state_ != state::idle) return;
  if (refusal_ && loop_.now() < earliest_attempt_) std::rethrow_exception(refusal_);
  refusal_ = nullptr;
  failures_ = refusals_ = backoff_ = 0;
  state_ = state::connecting;
  begin_attempt();
}

void server_link::begin_attempt() {
  try {
    const server_pool::entry& server = servers_.next();
    if (encryption_ != nullptr) encryption_->set_certificate_name(server.certificate_name);
    client_->connect(server.address.server);
  } catch (const std::bad_alloc&) {
    attempt_timer_.start_after(options_.longest_delay);
  }
}

void server_link::schedule_attempt(bool is_first) {
  const bool has_tried_all = failures_ % servers_.size() == 0;
  duration delay = duration::zero();
  if (is_first || has_tried_all) {
    const exponential_backoff delays{.initial = options_.initial_delay,
                                     .longest = options_.longest_delay};
    delay = delays.jittered_delay(++backoff_, generator_);
  }
  attempt_timer_.start_after(delay);
}

void server_link::on_attempt_failed(std::exception_ptr error, bool is_refused) {
  if (state_ != state::connecting) return;
  ++failures_;
  refusals_ = is_refused ? refusals_ + 1 : 0;
  if (refusals_ >= servers_.size()) return give_up(error);
  if (failures_ % options_.max_connect_attempts == 0) {
    const bool goes_on = was_ready_ || needs_connection();
    if (!goes_on) state_ = state::idle;
    end_attempt(std::move(error));
    if (!goes_on) return;
  }
  schedule_attempt(false);
}

void server_link::end_attempt(std::exception_ptr error) {
  const std::shared_ptr<attempt> old_attempt = std::exchange(attempt_, nullptr);
  if (old_attempt == nullptr) return;
  old_attempt->error = std::move(error);
  old_attempt->end_event.set();
}

void server_link::give_up(const std::exception_ptr& error) {
  state_ = state::idle;
  was_ready_ = false;
  refusal_ = error;
  earliest_attempt_ = loop_.now() + refusal_time;
  kept_output_ = io::buffer();
  end_attempt(error);
  on_refused(error);
}

void server_link::close_link() noexcept {
  if (is_closed()) return;
  flush();
  state_ = state::closed;
  attempt_timer_.cancel();
  login_timer_.cancel();
  health_timer_.cancel();
  flight_timer_.cancel();
  client_->disconnect();
  kept_output_ = io::buffer();
  const std::exception_ptr error = error_of(make_error_code(io::errc::closed), {});
  lose_pings(error);
  write_event_.set();
  end_attempt(error);
}

// --- The connection ---

void server_link::on_connected() {
  parser_ = parser(options_.max_message);
  step_ = login_step::info;
  output_.clear();
  unsent_requests_ = 0;
  has_only_requests_ = true;
  has_sent_flight_ = false;
  pings_sent_ = pongs_received_ = 0;
  server_error_.clear();
  end_reason_ = {};
  login_error_ = nullptr;
  login_refused_ = false;
  login_timer_.start_after(options_.connect_timeout);
}

void server_link::on_input(io::input& input) {
  silent_intervals_ = 0;
  while (!input.empty()) {
    const auto operation = parser_.parse(input.text());
    if (!operation) return fail(make_error_code(operation.error()));
    if (!*operation) return;
    input.consume((*operation)->size);
    handle_operation(**operation);
    if (is_closed() || end_reason_) return;
  }
}

void server_link::handle_operation(const operation& item) {
  switch (item.kind) {
    case operation_kind::message:
      if (step_ != login_step::done) return fail(make_error_code(errc::bad_message));
      return on_message(item);
    case operation_kind::info: return take_info(item.text);
    case operation_kind::ping: {
      // A server that sends PING, but does not read, must not let the output grow without bound.
      if (unsent_bytes() >= options_.high_water) return;
      output_.append("PONG\r\n");
      has_only_requests_ = false;
      return post_flush();
    }
    case operation_kind::pong: return take_pong();
    case operation_kind::error: return take_error(item.text);
    case operation_kind::ok: return;
  }
}

void server_link::take_info(std::string_view json) {
  std::optional<info_message> info = parse_info(json);
  if (!info) return fail(make_error_code(errc::bad_message));
  const bool is_first = step_ == login_step::info;
  const bool is_new_lame_duck =
      info->server.is_lame_duck && (is_first || !info_.server.is_lame_duck);
  info_ = std::move(*info);
  if (!options_.ignore_discovered_servers && !info_.connect_urls.empty()) {
    // The first INFO precedes an upgrade to TLS.
    servers_.discover(info_.connect_urls, options_.tls && (!is_first || options_.tls_first));
  }
  if (is_new_lame_duck)
    report_notice(notice::lame_duck, servers_.current().address.server.to_string());
  if (is_first && step_ == login_step::info && !is_closed()) begin_login();
}

void server_link::begin_login() {
  if (info_.tls_required && !options_.tls) {
    return fail_login(error_of(make_error_code(errc::tls_required), {}), true);
  }
  try {
    const std::string line = connect_line(options_, servers_.current().address, info_);
    output_.append(line);
    output_.append("PING\r\n");
  } catch (const std::system_error& error) {
    return fail_login(std::current_exception(), true);
  }
  ++pings_sent_;
  step_ = login_step::pong;
  flush();
}

void server_link::take_pong() {
  if (pongs_received_ == pings_sent_) return fail(make_error_code(errc::bad_message));
  ++pongs_received_;
  if (step_ == login_step::pong) return end_login();
  while (!ping_waits_.empty() && ping_waits_.front().number <= pongs_received_) {
    ping_waits_.pop_front()->end_event.set();
  }
}

void server_link::end_login() {
  step_ = login_step::done;
  login_timer_.cancel();
  state_ = state::ready;
  was_ready_ = true;
  ready_since_ = loop_.now();
  failures_ = refusals_ = 0;
  silent_intervals_ = 0;
  ++logins_;
  health_timer_.start_every(options_.ping_interval);
  on_ready();
  output_.append(kept_output_.bytes());
  kept_output_ = io::buffer();
  flush();
  update_writable();
  end_attempt(nullptr);
  report_notice(notice::connected, servers_.current().address.server.to_string());
}

void server_link::take_error(std::string_view text) {
  const std::error_code code = make_error_code(code_of(text));
  // Other errors than these two end the connection, so the text explains its end.
  if (code != errc::permission_denied && code != errc::bad_subject) server_error_ = text;
  if (step_ == login_step::done) return on_server_error(text);
  fail_login(error_of(code, text), is_refusal(code));
}

void server_link::fail_login(std::exception_ptr error, bool is_refused) {
  login_error_ = std::move(error);
  login_refused_ = is_refused;
  fail(gyre::detail::error_code_of(login_error_,
                                   std::make_error_code(std::errc::not_enough_memory)));
}

void server_link::fail(std::error_code error) {
  end_reason_ = error;
  if (net::tcp_connection* const connection = client_->connection()) connection->abort(error);
}

void server_link::on_closed(std::error_code cause) {
  login_timer_.cancel();
  health_timer_.cancel();
  flight_timer_.cancel();
  output_.clear();
  write_event_.set();  // waiting calls learn that there is no connection
  if (is_closed()) return;
  const bool was_ready = state_ == state::ready;
  if (!was_ready) {
    std::exception_ptr error = std::exchange(login_error_, nullptr);
    if (error == nullptr) error = error_of(reason_of_end(cause), server_error_);
    return on_attempt_failed(std::move(error), login_refused_);
  }
  state_ = state::connecting;
  if (loop_.now() - ready_since_ >= options_.longest_delay) backoff_ = 0;
  const std::exception_ptr error = error_of(
      reason_of_end(cause), server_error_.empty() && cause ? cause.message() : server_error_);
  lose_pings(error);
  on_lost(error);
  schedule_attempt(true);
  report_notice(notice::disconnected, servers_.current().address.server.to_string());
}

// Returns the code for the end of a connection that has ended because of `cause`.
std::error_code server_link::reason_of_end(std::error_code cause) const noexcept {
  const std::error_code reason = end_reason_ ? end_reason_ : cause;
  const bool is_own = reason.category() == nats_category();
  return is_own ? reason : make_error_code(errc::connection_lost);
}

std::exception_ptr server_link::error_of(std::error_code code,
                                         std::string_view detail) const noexcept try {
  std::string text = describe();
  if (!detail.empty()) text.append(" (").append(detail).append(")");
  return std::make_exception_ptr(std::system_error(code, text));
} catch (...) {
  return std::current_exception();
}

void server_link::lose_pings(const std::exception_ptr& error) noexcept {
  while (ping_wait* const front = ping_waits_.pop_front()) {
    front->error = error;
    front->end_event.set();
  }
}

void server_link::set_notice_handler(notice_handler handler) {
  notice_handler_ = handler ? std::make_shared<notice_handler>(std::move(handler)) : nullptr;
}

void server_link::report_notice(notice event, std::string_view text) {
  // The handler may replace itself.
  const std::shared_ptr<notice_handler> handler = notice_handler_;
  if (handler != nullptr) (*handler)(event, text);
}

void server_link::check_health() {
  if (++silent_intervals_ == 1) return;  // bytes have come since the check before
  if (silent_intervals_ > options_.max_pings + 1) return fail(make_error_code(errc::no_reply));
  append_ping();
}

}  // namespace gyre::nats::detail
