// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/client_core.hpp>

#include <gyre/engines/postgres/column_traits.hpp>
#include <gyre/engines/postgres/detail/credentials.hpp>
#include <gyre/engines/postgres/detail/listener.hpp>
#include <gyre/engines/postgres/detail/run_on_core.hpp>
#include <gyre/engines/postgres/detail/statement_reply.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/engines/postgres/session.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/named_wait.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::postgres::detail {
namespace {

constexpr const char* class_name = "gyre::postgres::client";
// The maximum number of times that a statement is sent or prepared, as its connection may be lost.
constexpr std::size_t max_uses = 3;

void check(const client_options& options) {
  const auto refuse = [](const char* problem) {
    throw std::invalid_argument(std::string(class_name) + ": " + problem);
  };
  if (options.user.empty()) refuse("the user is missing");
  if (options.max_shared == 0) refuse("max_shared must be at least 1");
  if (options.pipeline_depth == 0) refuse("pipeline_depth must be at least 1");
  if (options.max_open == 0) refuse("max_open must be at least 1");
  if (options.max_in_flight == 0) refuse("max_in_flight must be at least 1");
  if (options.max_waiting == 0) refuse("max_waiting must be at least 1");
  if (options.max_prepared == 0) refuse("max_prepared must be at least 1");
  if (options.max_message == 0) refuse("max_message must be at least 1");
  if (options.max_connect_attempts == 0) refuse("max_connect_attempts must be at least 1");
  if (options.statement_timeout <= duration::zero()) refuse("statement_timeout must be above zero");
  if (options.reply_timeout < duration::zero()) refuse("reply_timeout must not be negative");
  if (options.ping_interval <= duration::zero()) refuse("ping_interval must be above zero");
}

std::optional<tls::tls_context> context_of(const client_options& options) {
  if (options.encryption == encryption::off) return std::nullopt;
  if (options.tls) return options.tls;
  tls::client_options context;
  context.verify = options.encryption == encryption::verify_full;
  return tls::tls_context::client(context);
}

// Opens connections for a pool, which may outlive the client.
struct open_owned {
  event_loop& loop;
  net::host_port server;
  connection_options options;
  std::shared_ptr<connection_list> list;

  task<std::unique_ptr<owned_connection>> operator()() const {
    return open(std::make_unique<owned_connection>(
        std::make_shared<connection_core>(loop, server, options), list));
  }

 private:
  static task<std::unique_ptr<owned_connection>> open(
      std::unique_ptr<owned_connection> connection) {
    task<> turn = connection->core()->admit();
    co_await std::move(turn);
    connection->core()->cancel_admission();
    co_return connection;
  }
};

}  // namespace

client_core::client_core(event_loop& loop, const client_options& options)
    : loop_(loop),
      options_((check(options), options)),
      login_(std::make_shared<credentials>(options.user, options.password)),
      tls_(context_of(options)),
      generator_(gyre::detail::random_seed()),
      owned_connections_(std::make_shared<connection_list>()) {
  connection_options own_options = options_of_connection();
  own_options.is_shared = false;
  own_options.reconnects = false;
  net::connection_pool_options pool_options;
  pool_options.max_open = options.max_open;
  pool_options.max_waiting = options.max_waiting;
  pool_options.idle_timeout = options.idle_timeout;
  pool_options.max_lifetime = options.max_lifetime;
  pool_options.connect_timeout = duration::max();  // each attempt has a time limit of its own
  pool_.emplace(loop, open_owned{loop, options.server, std::move(own_options), owned_connections_},
                pool_options);
}

client_core::~client_core() { close(); }

connection_options client_core::options_of_connection() const {
  connection_options result;
  result.name = class_name;
  result.login = login_;
  result.database = options_.database;
  result.parameters = options_.settings;
  if (!options_.application_name.empty()) {
    result.parameters.emplace_back("application_name", options_.application_name);
  }
  if (options_.statement_timeout != duration::max()) {
    result.parameters.emplace_back("statement_timeout",
                                   std::to_string(*server_limit(options_.statement_timeout)));
  }
  if (tls_) {
    result.tls = *tls_;
    result.encryption =
        options_.tls_start == tls_start::direct ? tls_mode::direct : tls_mode::negotiate;
  }
  switch (options_.channel_binding) {
    case postgres::channel_binding::off: result.binding = channel_binding::disable; break;
    case postgres::channel_binding::prefer: result.binding = channel_binding::prefer; break;
    case postgres::channel_binding::require: result.binding = channel_binding::require; break;
  }
  result.allow_md5 = options_.allows_md5_password;
  result.allow_cleartext_password = options_.allows_cleartext_password;
  result.max_message = options_.max_message;
  result.max_in_flight = options_.max_in_flight;
  result.max_waiting = options_.max_waiting;
  result.max_statements = options_.max_prepared;
  result.is_binary = &is_read_as_binary;
  result.max_connect_attempts = options_.max_connect_attempts;
  result.connect_timeout = options_.connect_timeout;
  result.initial_delay = options_.initial_delay;
  result.longest_delay = options_.longest_delay;
  result.reply_timeout = options_.reply_timeout;
  result.ping_interval = options_.ping_interval;
  return result;
}

client_metrics client_core::metrics() const noexcept {
  client_metrics now = counts_;
  for (const auto& connection : shared_connections_) {
    if (connection->is_ready()) ++now.shared;
    now.in_flight += connection->in_flight();
    now.waiting += connection->waiting();
  }
  const net::connection_pool_metrics pool_metrics = pool_->metrics();
  now.open = pool_metrics.open;
  now.idle = pool_metrics.idle;
  now.waiting += pool_metrics.waiting;
  return now;
}

void client_core::close() noexcept {
  if (std::exchange(is_closed_, true)) return;
  for (const auto& connection : shared_connections_) connection->close();
  pool_->close();
  const connection_list connections = std::move(*owned_connections_);
  for (const auto& connection : connections) connection->close();
  if (listener_ != nullptr) listener_->end();
}

void client_core::require_open() const {
  if (!is_closed_) return;
  throw std::system_error(make_error_code(io::errc::not_open),
                          std::string(class_name) + ' ' + options_.server.to_string());
}

// --- Shared connections ---

std::shared_ptr<connection_core> client_core::choose_shared() {
  if (shared_connections_.empty()) add_shared();
  const auto load = [](const std::shared_ptr<connection_core>& connection) {
    constexpr std::size_t max_value = std::numeric_limits<std::size_t>::max();
    if (!connection->is_ready()) return max_value;
    return connection->is_fenced() ? max_value - 1
                                   : connection->in_flight() + connection->waiting();
  };
  const std::shared_ptr<connection_core>& least_loaded =
      *std::ranges::min_element(shared_connections_, {}, load);
  if (!least_loaded->is_ready()) return shared_connections_.front();
  if (load(least_loaded) >= options_.pipeline_depth &&
      shared_connections_.size() < options_.max_shared) {
    const std::shared_ptr<connection_core> connection = least_loaded;
    add_shared();
    // The new connection opens in the background; the present ones serve the calls meanwhile.
    shared_connections_.back()->set_needed(true);
    shared_connections_.back()->connect_if_needed();
    return connection;
  }
  return least_loaded;
}

void client_core::add_shared() {
  shared_connections_.push_back(
      std::make_shared<connection_core>(loop_, options_.server, options_of_connection()));
}

task<std::uint64_t> client_core::run(const statement& text, const argument_list& arguments,
                                     row_sink& rows) {
  const duration limit = text.options().timeout.value_or(options_.statement_timeout);
  if (limit == duration::max()) return run_shared(text, arguments, rows, limit);
  return with_timeout(run_shared(text, arguments, rows, limit), limit);
}

task<std::uint64_t> client_core::run_shared(const statement& text, const argument_list& arguments,
                                            row_sink& rows, duration limit) {
  const task_context& context = co_await gyre::detail::this_context();
  require_caller(context, loop_);
  using outcome = statement_reply::outcome;
  const trace::detail::named_wait record(trace::detail::event_kind::statement, text.text());
  const bool has_limit = limit != duration::max();
  const steady_time begin = loop_.now();
  bool was_stale = false;
  for (std::size_t uses = 1;;) {
    require_open();
    const std::shared_ptr<connection_core> core = choose_shared();
    connection_core::shared_statement statement = core->find_prepared(text.text());
    if (statement == nullptr) {
      task<connection_core::shared_statement> prepare_task =
          connection_core::prepare(core, text.text());
      bool was_lost = false;
      try {
        statement = co_await std::move(prepare_task);
      } catch (const std::system_error& error) {
        // A preparation changes nothing, so it can be repeated.
        if (error.code() != errc::connection_lost || uses == max_uses) throw;
        was_lost = true;
      }
      if (was_lost) {
        ++uses;
        ++counts_.repetitions;
        continue;
      }
    }
    rows.begin(statement->columns());
    if (!core->try_admit()) {
      task<> turn = core->admit();
      co_await std::move(turn);
      // During the wait, another connection may have replaced the one that knows the statement.
      if (core->find_prepared(text.text()) != statement) {
        core->cancel_admission();
        continue;
      }
    }
    statement_reply reply(*core, &rows, max_result_of(text));
    std::string limit_statement;
    std::string_view prefix;
    if (text.options().timeout) {
      try {
        const duration remaining_time = has_limit ? duration(limit - (loop_.now() - begin)) : limit;
        limit_statement = limit_text(server_limit(remaining_time));
        prefix = limit_statement;
      } catch (...) {
        core->cancel_admission();
        throw;
      }
    }
    core->execute(reply, *statement,
                  [&](io::buffer& output) { arguments.write(output, statement->parameters()); },
                  {.prefix = std::span<const std::string_view>(&prefix, prefix.empty() ? 0 : 1)});
    ++counts_.statements;
    co_await reply.wait();
    const bool may_repeat =
        reply.result() == outcome::unsent ||
        (reply.result() == outcome::lost && text.options().is_idempotent && uses < max_uses);
    if (may_repeat && !is_closed_) {
      ++uses;
      ++counts_.repetitions;
      continue;
    }
    if (reply.server_failure() && is_stale(*reply.server_failure())) {
      core->forget_prepared(*statement);
      // A refused statement has changed nothing, so it can be sent again.
      if (!std::exchange(was_stale, true)) continue;
    }
    if (!text.options().is_prepared) core->forget_prepared(*statement);
    reply.throw_if_failed(text.text(), has_limit);
    co_return reply.affected();
  }
}

// --- Own connections ---

task<std::shared_ptr<connection_lease>> client_core::lease(shared self) {
  self->require_open();
  auto lease_task = self->pool_->acquire();
  connection_lease::pooled connection = co_await std::move(lease_task);
  co_return std::make_shared<connection_lease>(self, std::move(connection));
}

task<transaction_state::shared> client_core::begin_transaction(shared self,
                                                               transaction_options options) {
  task<std::shared_ptr<connection_lease>> lease_task = lease(self);
  std::shared_ptr<connection_lease> own_lease = co_await std::move(lease_task);
  ++self->counts_.transactions;
  co_return transaction_state::transaction(std::move(own_lease), options);
}

task<> client_core::run_script(std::string script) {
  task<std::shared_ptr<connection_lease>> lease_task = lease(shared_from_this());
  std::shared_ptr<connection_lease> own_lease = co_await std::move(lease_task);
  // The script may change settings of the session, so no other caller may get the connection.
  own_lease->keep_from_others();
  const transaction_state::shared session = transaction_state::session(std::move(own_lease));
  task<> run_task = session->run_script(std::move(script));
  co_await std::move(run_task);
}

task<joined_transaction> client_core::join(bool needs_transaction) {
  task<std::shared_ptr<connection_lease>> lease_task = lease(shared_from_this());
  std::shared_ptr<connection_lease> own_lease = co_await std::move(lease_task);
  transaction_state::shared state = needs_transaction
                                        ? transaction_state::transaction(std::move(own_lease), {})
                                        : transaction_state::session(std::move(own_lease));
  co_return joined_transaction{std::move(state), true};
}

const std::shared_ptr<listener>& client_core::notifications() {
  if (listener_ == nullptr) {
    connection_options options = options_of_connection();
    options.reply_timeout = options.ping_timeout;  // the server replies to LISTEN at once
    listener_ = std::make_shared<listener>(loop_, options_.server, options);
  }
  return listener_;
}

task<postgres::session> acquire_session(client_core::shared client) {
  require_runner(client);
  task<std::shared_ptr<connection_lease>> lease_task = client_core::lease(client);
  std::shared_ptr<connection_lease> own_lease = co_await std::move(lease_task);
  own_lease->keep_from_others();
  co_return postgres::session(transaction_state::session(std::move(own_lease)));
}

task<subscription> listen(client_core::shared client, std::string channel,
                          subscription_options options) {
  require_runner(client);
  client->require_open();
  task<subscription> listen_task =
      listener::listen(client->notifications(), std::move(channel), options);
  co_return co_await std::move(listen_task);
}

}  // namespace gyre::postgres::detail
