// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/connection_core.hpp>

#include <gyre/engines/postgres/detail/body_reader.hpp>
#include <gyre/engines/postgres/detail/read_server_message.hpp>
#include <gyre/engines/postgres/detail/row_view.hpp>
#include <gyre/engines/postgres/detail/tls_negotiation.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <algorithm>
#include <chrono>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::postgres::detail {
namespace {

constexpr std::size_t least_max_message = 1024;
constexpr std::size_t largest_max_message = std::size_t{1} << 30;
// The maximum number of settings that a server may report; PostgreSQL 16 reports fourteen.
constexpr std::size_t max_settings = 64;
// The pause before a further login. It is longer than the second in which the pipeline refuses to
// log in again.
constexpr std::chrono::milliseconds least_retry_delay{1100};
// The maximum number of attempts to prepare a statement. A preparation changes nothing, so it can
// be repeated after the connection was lost.
constexpr int max_preparations = 3;

void check(const net::host_port& server, const connection_options& options) {
  const auto refuse = [&](const char* problem) {
    throw std::invalid_argument(std::string(options.name) + ": " + problem);
  };
  if (options.login == nullptr || options.login->user().empty()) refuse("the user has no name");
  require_no_zero(options.login->user(), "the user's name");
  require_no_zero(options.login->password(), "the password");
  require_no_zero(options.database, "the database's name");
  if (options.max_message < least_max_message || options.max_message > largest_max_message) {
    refuse("max_message must be between 1 KiB and 1 GiB");
  }
  if (options.max_in_flight == 0) refuse("max_in_flight must be at least 1");
  if (options.max_waiting == 0) refuse("max_waiting must be at least 1");
  if (options.max_statements == 0) refuse("max_statements must be at least 1");
  if (options.max_connect_attempts == 0) refuse("max_connect_attempts must be at least 1");
  if (options.reply_timeout < duration::zero()) refuse("reply_timeout must not be negative");
  if (options.ping_interval <= duration::zero()) refuse("ping_interval must be above zero");
  if (options.ping_timeout <= duration::zero()) refuse("ping_timeout must be above zero");
  if (options.cancel_timeout <= duration::zero()) refuse("cancel_timeout must be above zero");
  if (options.encryption == tls_mode::off) {
    if (options.binding == channel_binding::require) refuse("channel binding needs TLS");
    return;
  }
  if (!options.tls) refuse("TLS needs a context");
  if (server.direct().is_unix()) refuse("PostgreSQL has no TLS over Unix sockets");
}

net::tcp_client_options connecting_options(const net::host_port& server,
                                           const connection_options& options) {
  check(server, options);
  net::tcp_client_options client_settings;
  client_settings.connect_timeout = options.connect_timeout;
  client_settings.initial_delay = options.initial_delay;
  client_settings.longest_delay = options.longest_delay;
  client_settings.transport = make_transport(options);
  return client_settings;
}

engines::detail::pipeline_options pipeline_options_of(const net::host_port& server,
                                                      const connection_options& options) {
  // This function checks, too, because either function may be called before the other.
  check(server, options);
  const bool has_limit = options.reply_timeout > duration::zero();
  return {.name = options.name,
          .lost = make_error_code(errc::connection_lost),
          .no_reply = make_error_code(errc::no_reply),
          .max_in_flight = options.max_in_flight,
          .max_waiting = options.max_waiting,
          .max_connect_attempts = options.max_connect_attempts,
          .login_timeout = options.ping_timeout,
          .reply_timeout = has_limit ? options.reply_timeout : options.ping_timeout,
          .ping_interval = options.ping_interval,
          .is_single_use = !options.reconnects,
          .gathers = true};
}

// Returns whether another attempt may succeed: the server is starting, or has no free connection.
bool is_passing(const server_message& error) noexcept {
  const errc code = errc_of(error.sqlstate);
  return code == errc::cannot_connect_now || code == errc::too_many_connections;
}

std::string words_of(const server_message& error) {
  return error.severity + ' ' + error.sqlstate + ": " + error.message;
}

}  // namespace

bool is_stale(const server_message& error) noexcept {
  return error.sqlstate == "26000" ||
         (error.sqlstate == "0A000" && error.routine == "RevalidateCachedQuery");
}

// --- Requests of the connection itself ---

/// The login, a ping, or a script of the observer.
class connection_core::own_request final : public statement_request {
 public:
  explicit own_request(connection_core& core) noexcept : core_(core) {}
  ~own_request() = default;

  void on_error(server_message error) noexcept override {
    try {
      core_.give_up(errc::connection_lost, words_of(error));
    } catch (const std::bad_alloc&) {
      core_.give_up(errc::connection_lost);
    }
  }
  void on_ready(transaction_status) noexcept override {}
  void on_lost(const std::exception_ptr&, bool) noexcept override {}

 private:
  connection_core& core_;
};

/// The successor of an abandoned request.
class connection_core::dropped_request final : public statement_request {
 public:
  dropped_request() noexcept = default;
  ~dropped_request() = default;
  void on_error(server_message) noexcept override {}
  void on_ready(transaction_status) noexcept override {}
  void on_lost(const std::exception_ptr&, bool) noexcept override {}
};

/// A statement that is being prepared, for which calls wait. It belongs to the connection: a call
/// that ends does not end it for the others.
class connection_core::preparation final : public statement_request {
 public:
  preparation(connection_core& core, std::string_view text)
      : core_(core), name_("g" + std::to_string(++core.names_)), text_(text) {}
  ~preparation() = default;

  const std::string& name() const noexcept { return name_; }
  const std::string& text() const noexcept { return text_; }
  /// A caller that waits for the end. When the last one has gone, the server is asked to cancel the
  /// preparation, which may wait for the lock of a table.
  class waiter {
   public:
    explicit waiter(preparation& awaited_preparation) noexcept : target_(awaited_preparation) {
      ++target_.waiters_;
    }
    waiter& operator=(waiter&&) = delete;
    ~waiter() {
      if (--target_.waiters_ == 0 && !target_.end_event_.is_set()) target_.cancel();
    }
    auto wait() noexcept { return target_.end_event_.wait(); }

   private:
    preparation& target_;
  };

  /// Whether the preparation may succeed on another connection, or for another caller.
  bool may_be_repeated() const noexcept { return may_be_repeated_; }
  /// Returns the statement, or throws the error.
  const shared_statement& result() const {
    if (error_) std::rethrow_exception(error_);
    return statement_;
  }

  bool wants_columns() const noexcept override { return true; }
  void on_parameters(std::vector<std::uint32_t> types) override { parameters_ = std::move(types); }
  void on_columns(std::vector<column_description> columns) override {
    for (column_description& column : columns) {
      column.is_binary =
          core_.options_.is_binary != nullptr && core_.options_.is_binary(column.type);
    }
    columns_ = std::move(columns);
  }
  void on_error(server_message error) noexcept override {
    may_be_repeated_ = is_cancelled_for_callers_;
    try {
      error_ = std::make_exception_ptr(server_error(std::move(error), text_));
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  void on_ready(transaction_status) noexcept override {
    if (!error_) add_to_connection();
    end();
  }
  void on_lost(const std::exception_ptr& error, bool was_sent) noexcept override {
    may_be_repeated_ = !was_sent || is_loss(error);
    error_ = error;
    end();
  }

 private:
  // Returns whether the error means a lost connection. A protocol error or a silent server does
  // not.
  static bool is_loss(const std::exception_ptr& error) noexcept {
    try {
      std::rethrow_exception(error);
    } catch (const std::system_error& failure) {
      return failure.code() == errc::connection_lost;
    } catch (...) {
      return false;
    }
  }
  void add_to_connection() noexcept {
    try {
      statement_ = std::make_shared<const prepared_statement>(name_, text_, std::move(parameters_),
                                                              std::move(columns_));
      core_.statements_.add(statement_, core_.dropped_statements_);
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  void cancel() noexcept {
    is_cancelled_for_callers_ = true;
    core_.cancel(*this);
  }
  // The last reference may be that of the connection.
  void end() noexcept {
    const auto match = core_.preparations_.find(text_);
    const std::shared_ptr<preparation> self = std::move(match->second);
    core_.preparations_.erase(match);
    end_event_.set();
  }

  connection_core& core_;
  const std::string name_;
  const std::string text_;
  std::vector<std::uint32_t> parameters_;
  std::vector<column_description> columns_;
  shared_statement statement_;
  std::exception_ptr error_;
  std::size_t waiters_ = 0;
  bool is_cancelled_for_callers_ = false;
  bool may_be_repeated_ = false;
  manual_reset_event end_event_;
};

connection_core::connection_core(event_loop& loop, const net::host_port& server,
                                 const connection_options& options)
    : pipeline(loop, server, connecting_options(server, options),
               pipeline_options_of(server, options)),
      options_(options),
      statements_(options.max_statements),
      own_request_(std::make_unique<own_request>(*this)),
      dropped_request_(std::make_unique<dropped_request>()),
      cancel_timer_(loop, [this] { end_delay(); }),
      retry_timer_(loop, [this] { try_again(); }) {}

connection_core::~connection_core() = default;

std::string_view connection_core::parameter(std::string_view name) const noexcept {
  const auto match = settings_.find(name);
  return match == settings_.end() ? std::string_view() : match->second;
}

// --- Prepared statements ---

task<connection_core::shared_statement> connection_core::prepare(shared self,
                                                                 std::string_view text) {
  for (int losses = 0;;) {
    if (shared_statement statement = self->find_prepared(text)) co_return statement;
    const auto match = self->preparations_.find(text);
    std::shared_ptr<preparation> entry =
        match != self->preparations_.end() ? match->second : nullptr;
    if (entry == nullptr) {
      if (!self->loop().in_loop_thread() || !self->try_admit()) {
        task<> turn = self->admit();
        co_await std::move(turn);
        // Another call may have begun to prepare the statement during the wait.
        if (self->knows(text)) {
          self->cancel_admission();
          continue;
        }
      }
      entry = self->start_preparation(text);
    }
    {
      preparation::waiter caller(*entry);
      co_await caller.wait();
    }
    if (entry->may_be_repeated() && ++losses < max_preparations) continue;
    co_return entry->result();
  }
}

bool connection_core::knows(std::string_view text) noexcept {
  return find_prepared(text) != nullptr || preparations_.contains(text);
}

std::shared_ptr<connection_core::preparation> connection_core::start_preparation(
    std::string_view text) {
  std::shared_ptr<preparation> new_preparation;
  try {
    new_preparation = std::make_shared<preparation>(*this, text);
    preparations_.emplace(new_preparation->text(), new_preparation);
  } catch (...) {
    cancel_admission();
    throw;
  }
  try {
    append(*new_preparation, 0, [&](message_writer& writer) {
      for (const std::string& name : dropped_statements_) writer.close_statement(name);
      writer.parse(new_preparation->name(), new_preparation->text());
      writer.describe_statement(new_preparation->name());
      writer.sync();
    });
  } catch (...) {
    preparations_.erase(new_preparation->text());
    throw;
  }
  dropped_statements_.clear();
  return new_preparation;
}

void connection_core::forget_prepared(const prepared_statement& statement) {
  dropped_statements_.push_back(statement.name());
  if (!statements_.remove(statement)) dropped_statements_.pop_back();
}

// --- Requests ---

void connection_core::start_flight(statement_request& request, std::size_t prefix,
                                   std::uint64_t number) noexcept {
  request.number_ = number;
  request.prefix_left_ = prefix;
  request.is_in_flight_ = true;
  request.is_cancelled_ = false;
  ++awaited_requests_;
}

template <class Write>
void connection_core::append_unadmitted(statement_request& request, Write write) {
  const std::uint64_t begin_position = write_request(write);
  start_flight(request, 0, enter_internal_request(&request, begin_position));
}

void connection_core::execute_portal(statement_request& request, std::string_view portal,
                                     std::uint32_t max_rows) {
  append(request, 0, [&](message_writer& writer) {
    writer.execute(portal, max_rows);
    writer.sync();
  });
}

void connection_core::close_portal(statement_request& request, std::string_view portal) {
  append(request, 0, [&](message_writer& writer) {
    writer.close_portal(portal);
    writer.sync();
  });
}

void connection_core::query(statement_request& request, std::string_view script) {
  append(request, 0, [&](message_writer& writer) { writer.query(script); });
}

void connection_core::append_internal_script(std::string_view script) {
  append_unadmitted(*own_request_, [&](message_writer& writer) { writer.query(script); });
}

void connection_core::ping() {
  append_unadmitted(*own_request_, [](message_writer& writer) { writer.sync(); });
}

void connection_core::abandon(statement_request& request) noexcept {
  if (!request.is_in_flight_) return;
  try {
    fail_batch(request);
  } catch (...) {
    give_up(errc::connection_lost);
    if (!request.is_in_flight_) return;
  }
  request.is_in_flight_ = false;
  if (!request.is_cancelled_) --awaited_requests_;
  const bool is_first = *front() == &request;
  pipeline::abandon(request.number_, dropped_request_.get());
  if (is_first && is_paused_) resume_reading();
  if (is_first && copy_ == copy_state::in) {
    try {
      copy_fail("the client has stopped");
    } catch (...) {
      give_up(errc::connection_lost);
    }
  }
  update_cancelling();
}

void connection_core::cancel(statement_request& request) noexcept {
  if (!request.is_in_flight_ || request.is_cancelled_) return;
  request.is_cancelled_ = true;
  --awaited_requests_;
  update_cancelling();
}

// --- Batches ---

void connection_core::begin_batch(statement_request& request,
                                  std::span<const std::string_view> prefix) {
  const std::uint64_t begin_position = write_request([&](message_writer& writer) {
    for (const std::string_view prefix_text : prefix) {
      writer.parse({}, prefix_text);
      writer.bind_unnamed();
      writer.execute({}, 0);
    }
  });
  open_batch_ = &request;
  fence();
  start_flight(request, prefix.size(), enter_request(&request, begin_position));
}

void connection_core::append_to_batch(const statement_request& request,
                                      std::span<const std::byte> messages) {
  if (&request != open_batch_) return;
  output().append(messages);
  request_flush();
}

void connection_core::end_batch(const statement_request& request) {
  if (&request != open_batch_) return;
  message_writer(output()).sync();
  close_batch();
}

void connection_core::fail_batch(const statement_request& request) {
  if (&request != open_batch_) return;
  message_writer writer(output());
  writer.bind(
      {}, "gyre_batch_was_given_up", [](io::buffer& values) { values.append(std::uint32_t{0}); },
      std::as_bytes(std::span("\0", 2)));
  writer.sync();
  close_batch();
}

void connection_core::close_batch() noexcept {
  open_batch_ = nullptr;
  restart_reply_timeout();
  request_flush();
  unfence();
}

// --- COPY ---

void connection_core::copy_data(std::span<const std::byte> bytes) {
  // Without a COPY, the request has got an error already.
  if (copy_ != copy_state::in) return;
  io::buffer& target = output();
  const std::size_t size = target.size();
  try {
    message_writer(target).copy_data(bytes);
  } catch (...) {
    target.drop_last(target.size() - size);
    throw;
  }
  request_flush();
}

void connection_core::copy_done() {
  if (copy_ != copy_state::in) return;
  message_writer(output()).copy_done();
  copy_ = copy_state::none;
  restart_reply_timeout();
  request_flush();
}

void connection_core::copy_fail(std::string_view reason) {
  if (copy_ != copy_state::in) return;
  message_writer(output()).copy_fail(reason);
  copy_ = copy_state::none;
  restart_reply_timeout();
  request_flush();
}

void connection_core::pause_reading() noexcept {
  if (connection() == nullptr) return;
  is_paused_ = true;
  connection()->pause_reading();
}

void connection_core::resume_reading() noexcept {
  if (!std::exchange(is_paused_, false)) return;
  if (connection() != nullptr) connection()->resume_reading();
}

// --- The connection ---

void connection_core::begin_login() {
  is_logged_in_ = false;
  has_failed_ = false;
  is_paused_ = false;
  awaited_requests_ = 0;
  status_ = transaction_status::idle;
  process_ = 0;
  key_.clear();
  settings_.clear();
  login_.emplace(options_, channel_of(connection()->layer()), options_.encryption != tls_mode::off);
  append_unadmitted(*own_request_, [this](message_writer& writer) {
    writer.startup(options_.login->user(), options_.database, options_.parameters);
  });
}

void connection_core::connection_ended() noexcept {
  is_logged_in_ = false;
  is_paused_ = false;
  copy_ = copy_state::none;
  open_batch_ = nullptr;
  awaited_requests_ = 0;
  login_.reset();
  statements_.clear();
  dropped_statements_.clear();
  cancel_ = cancel_state::none;
  cancel_timer_.cancel();
}

void connection_core::give_up(errc error, std::string_view text) noexcept {
  has_failed_ = true;
  fail(make_error_code(error), text);
}

bool connection_core::is_reply_due() const noexcept {
  if (is_paused_ || copy_ == copy_state::in || *front() == open_batch_) return false;
  return *front() == own_request_.get() || options_.reply_timeout > duration::zero();
}

void connection_core::read_input(io::input& input) {
  try {
    while (!has_failed_ && !is_paused_) {
      const auto phase = is_logged_in_ ? connection_phase::ready : connection_phase::login;
      const auto message = take_message(input, phase, options_.max_message);
      if (!message) return give_up(message.error());
      if (!*message) return;
      if (!handle_message(**message)) return give_up(errc::bad_message);
    }
    if (has_failed_) input.consume_all();
  } catch (...) {
    has_failed_ = true;
    fail(std::make_error_code(std::errc::not_enough_memory));
  }
}

bool connection_core::handle_message(const backend_message& message) {
  switch (message.kind) {
    case message_kind::notice: return take_notice(message.body);
    case message_kind::notification: return take_notification(message.body);
    case message_kind::parameter_status: return take_setting(message.body);
    case message_kind::error: return take_error(message.body);
    default: break;
  }
  if (!is_logged_in_) return take_in_login(message);
  const std::optional<engines::detail::pending_reply*> first = front();
  if (!first) return false;
  auto& request = static_cast<statement_request&>(**first);
  if (message.kind == message_kind::ready) return take_ready(message.body, request);
  return take_reply(message, request);
}

bool connection_core::take_notice(std::span<const std::byte> body) {
  if (options_.observer == nullptr) return true;
  const std::optional<server_message> notice = read_server_message(body);
  if (!notice) return false;
  options_.observer->on_notice(*notice);
  return true;
}

bool connection_core::take_notification(std::span<const std::byte> body) {
  body_reader reader(body);
  const auto process = reader.read<std::int32_t>();
  const std::string_view channel = reader.text();
  const std::string_view payload = reader.text();
  if (!reader.is_complete()) return false;
  if (options_.observer != nullptr) options_.observer->on_notification(channel, payload, process);
  return true;
}

bool connection_core::take_setting(std::span<const std::byte> body) {
  body_reader reader(body);
  const std::string_view name = reader.text();
  const std::string_view value = reader.text();
  if (!reader.is_complete()) return false;
  if (name == "integer_datetimes" && value != "on") {
    finish_login_with(std::make_exception_ptr(std::system_error(
        make_error_code(errc::server_too_old),
        describe() + ": the server's times are floating-point numbers (integer_datetimes)")));
    return true;
  }
  const auto match = settings_.find(name);
  if (match != settings_.end()) {
    match->second = value;
  } else if (settings_.size() < max_settings) {
    settings_.emplace(name, value);
  }
  return true;
}

bool connection_core::take_error(std::span<const std::byte> body) {
  std::optional<server_message> error = read_server_message(body);
  if (!error) return false;
  if (!is_logged_in_) {
    refuse_login(*error);
    return true;
  }
  if (ends_connection(*error)) {
    give_up(errc::connection_lost, words_of(*error));
    return true;
  }
  const std::optional<engines::detail::pending_reply*> first = front();
  if (!first) return false;
  copy_ = copy_state::none;
  static_cast<statement_request&>(**first).on_error(std::move(*error));
  return true;
}

// --- The login ---

bool connection_core::take_in_login(const backend_message& message) {
  switch (message.kind) {
    case message_kind::authentication: try { login_->respond(message.body, output());
      } catch (const std::system_error&) {
        finish_login_with(std::current_exception());
        return true;
      }
      request_flush();
      return true;
    case message_kind::backend_key: return take_key(message.body);
    case message_kind::negotiate_version: return true;
    case message_kind::ready: return complete_login(message.body);
    default: return false;
  }
}

bool connection_core::take_key(std::span<const std::byte> body) {
  body_reader reader(body);
  process_ = reader.read<std::int32_t>();
  key_.assign(reader.left().begin(), reader.left().end());
  return true;
}

bool connection_core::complete_login(std::span<const std::byte> body) {
  if (!login_->is_done() || body.front() != std::byte{'I'}) return false;
  login_.reset();
  is_logged_in_ = true;
  ++logins_;
  --awaited_requests_;
  pop_front();
  if (options_.observer != nullptr) options_.observer->on_login(*this);
  if (!has_failed_) finish_login(nullptr);
  return true;
}

void connection_core::refuse_login(const server_message& error) {
  if (is_passing(error)) return give_up(errc_of(error.sqlstate), error.message);
  finish_login_with(std::make_exception_ptr(server_error(error)));
}

void connection_core::finish_login_with(std::exception_ptr error) {
  has_failed_ = true;
  finish_login(std::move(error));
  if (is_needed_ && options_.reconnects) {
    retry_timer_.start_after(std::max<duration>(options_.longest_delay, least_retry_delay));
  }
}

void connection_core::try_again() noexcept {
  try {
    connect_if_needed();
  } catch (...) {
    retry_timer_.start_after(least_retry_delay);  // there is no memory, or the pause has not ended
  }
}

// --- Replies ---

bool connection_core::take_reply(const backend_message& message, statement_request& request) {
  const bool is_prefix = request.prefix_left_ > 0;
  switch (message.kind) {
    case message_kind::bind_complete:
    case message_kind::close_complete:
    case message_kind::parse_complete: return true;
    case message_kind::data_row: return is_prefix || take_row(message.body, request);
    case message_kind::command_complete: return take_tag(message.body, request);
    case message_kind::empty_query:
      if (is_prefix) {
        --request.prefix_left_;
      } else {
        request.on_complete({});
      }
      return true;
    case message_kind::portal_suspended:
      if (!is_prefix) request.on_suspended();
      return !is_prefix;
    case message_kind::parameter_description: return take_parameters(message.body, request);
    case message_kind::row_description: return take_columns(message.body, request);
    case message_kind::no_data:
      if (request.wants_columns()) request.on_columns({});
      return true;
    case message_kind::copy_in: return take_copy_in(request);
    case message_kind::copy_out:
      copy_ = copy_state::out;
      request.on_copy_out();
      return true;
    case message_kind::copy_data:
      if (copy_ != copy_state::out) return false;
      request.on_copy_data(message.body);
      return true;
    case message_kind::copy_done:
      if (std::exchange(copy_, copy_state::none) != copy_state::out) return false;
      request.on_copy_done();
      return true;
    default: return false;
  }
}

bool connection_core::take_row(std::span<const std::byte> body, statement_request& request) const {
  if (&request == dropped_request_.get()) return true;
  const std::optional<row_view> row = row_view::parse(body);
  if (!row) return false;
  request.on_row(*row);
  return true;
}

bool connection_core::take_tag(std::span<const std::byte> body, statement_request& request) {
  body_reader reader(body);
  const std::string_view tag = reader.text();
  if (!reader.is_complete()) return false;
  if (request.prefix_left_ > 0) {
    --request.prefix_left_;
  } else {
    request.on_complete(tag);
  }
  return true;
}

bool connection_core::take_parameters(std::span<const std::byte> body, statement_request& request) {
  body_reader reader(body);
  const auto count = reader.read<std::uint16_t>();
  if (reader.left().size() != count * sizeof(std::uint32_t)) return false;
  std::vector<std::uint32_t> types;
  types.reserve(count);
  for (std::size_t index = 0; index < count; ++index) types.push_back(reader.read<std::uint32_t>());
  request.on_parameters(std::move(types));
  return true;
}

bool connection_core::take_columns(std::span<const std::byte> body, statement_request& request) {
  if (!request.wants_columns()) return true;
  body_reader reader(body);
  const auto count = reader.read<std::uint16_t>();
  std::vector<column_description> columns;
  for (std::size_t index = 0; index < count && reader.is_good(); ++index) {
    column_description column;
    column.name = reader.text();
    reader.bytes(6);  // the table's number, and the column's number in it
    column.type = reader.read<std::uint32_t>();
    reader.bytes(2);  // the size of the type
    column.type_modifier = reader.read<std::int32_t>();
    column.is_binary = reader.read<std::uint16_t>() == 1;
    columns.push_back(std::move(column));
  }
  if (!reader.is_complete()) return false;
  request.on_columns(std::move(columns));
  return true;
}

// During a COPY from the client, the server takes nothing but data: it would refuse statements that
// were sent after the COPY, and not reply to each of them.
bool connection_core::take_copy_in(statement_request& request) {
  if (!request.is_copy_in() || in_flight() > 1) {
    give_up(errc::connection_lost,
            "COPY ... FROM STDIN is not possible as an ordinary statement, or beside others");
    return true;
  }
  copy_ = copy_state::in;
  request.on_copy_in();
  return true;
}

bool connection_core::take_ready(std::span<const std::byte> body, statement_request& request) {
  const auto status = static_cast<transaction_status>(std::to_integer<char>(body.front()));
  if (status != transaction_status::idle && status != transaction_status::open &&
      status != transaction_status::failed) {
    return false;
  }
  if (&request == open_batch_) return false;  // the batch is open: the server waits for its Sync
  if (options_.is_shared && status != transaction_status::idle) {
    give_up(errc::connection_lost,
            "a statement has left a transaction open on a connection that others share");
    return true;
  }
  status_ = status;
  copy_ = copy_state::none;
  if (!is_unwanted(&request)) --awaited_requests_;
  pop_front();
  request.is_in_flight_ = false;
  request.on_ready(status);
  update_cancelling();
  return true;
}

// --- Cancelling ---

void connection_core::unfence() noexcept {
  if (cancel_ == cancel_state::none && open_batch_ == nullptr) lift_fence();
}

bool connection_core::is_unwanted(const statement_request* request) const noexcept {
  return request == dropped_request_.get() || request->is_cancelled_;
}

bool connection_core::first_is_unwanted() noexcept {
  const std::optional<engines::detail::pending_reply*> first = front();
  return first && is_unwanted(static_cast<statement_request*>(*first));
}

void connection_core::update_cancelling() noexcept {
  if (!is_ready() || has_failed_ || cancel_ == cancel_state::sent) return;
  if (!first_is_unwanted()) {
    if (cancel_ == cancel_state::none) return;
    cancel_ = cancel_state::none;
    cancel_timer_.cancel();
    return unfence();
  }
  if (cancel_ == cancel_state::none) {
    cancel_ = cancel_state::delayed;
    fence();
    return cancel_timer_.start_after(options_.cancel_delay);
  }
  if (cancel_ == cancel_state::due && awaited_requests_ == 0) send_cancel_request();
}

void connection_core::end_delay() {
  if (cancel_ == cancel_state::sent) return give_up(errc::no_reply, "a statement is not cancelled");
  cancel_ = cancel_state::due;
  update_cancelling();
}

void connection_core::send_cancel_request() noexcept {
  cancel_ = cancel_state::sent;
  cancel_timer_.start_after(options_.cancel_timeout);
  // Without a key, which poolers may not send, the statement ends by itself, or after that time.
  if (key_.empty()) return;
  try {
    io::buffer request;
    message_writer(request).cancel_request(process_, key_);
    const bool is_name = server().is_name();
    // The resolved address is used, as another address of the name may belong to another server.
    const net::host_port target =
        is_name ? net::host_port(connection()->peer_endpoint()) : server();
    cancel_request_.emplace(loop(), target,
                            make_transport(options_, is_name ? server().host() : std::string()),
                            options_.connect_timeout, std::move(request),
                            [this](bool was_delivered) { end_cancel_request(was_delivered); });
  } catch (...) {
    give_up(errc::connection_lost);
  }
}

void connection_core::end_cancel_request(bool was_delivered) {
  if (cancel_ != cancel_state::sent) return;
  if (!was_delivered) {
    return give_up(errc::connection_lost, "the server cannot be asked to cancel a statement");
  }
  cancel_timer_.cancel();
  cancel_ = cancel_state::none;
  if (!first_is_unwanted()) return unfence();
  update_cancelling();
}

}  // namespace gyre::postgres::detail
