// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/detail/client_core.hpp>

#include <gyre/engines/redis/reply_traits.hpp>
#include <gyre/engines/redis/session.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/coroutine_loop.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/tls/transport.hpp>

#include <stdexcept>
#include <utility>

namespace gyre::redis::detail {
namespace {

constexpr const char* class_name = "gyre::redis::client";

net::tcp_client_options connection_options_of(const client_options& options, connection_use use) {
  net::tcp_client_options connection;
  // A session sends no PING, so TCP has to find a dead peer.
  connection.connections.keep_alive = use == connection_use::own;
  connection.connect_timeout = options.connect_timeout;
  connection.initial_delay = options.initial_delay;
  connection.longest_delay = options.longest_delay;
  if (options.tls) connection.transport = tls::client_transport(*options.tls);
  return connection;
}

engines::detail::pipeline_options pipeline_options_of(const client_options& options,
                                                      connection_use use) {
  check(options);
  const bool is_own = use == connection_use::own;
  return {.name = is_own ? "gyre::redis::session" : class_name,
          .lost = make_error_code(errc::connection_lost),
          .no_reply = make_error_code(errc::no_reply),
          .max_in_flight = is_own ? 1 : options.max_in_flight,
          .max_waiting = options.max_waiting,
          .max_connect_attempts = options.max_connect_attempts,
          .login_timeout = options.connect_timeout,
          .reply_timeout = options.reply_timeout,
          .ping_interval = options.ping_interval,
          .is_single_use = is_own};
}

// Classifies a complete reply as a push, an error, or any other value (text).
reply_kind kind_of(std::string_view bytes) noexcept {
  switch (bytes.front()) {
    case '>': return reply_kind::push;
    case '-':
    case '!': return reply_kind::error;
    case '|': return reply_cursor(bytes).peek().kind;
    default: return reply_kind::text;
  }
}

// Returns the error for a server that speaks only RESP2.
std::exception_ptr no_messages(const char* problem) {
  return std::make_exception_ptr(std::system_error(make_error_code(errc::not_supported), problem));
}

}  // namespace

void throw_moved_from() {
  throw std::system_error(make_error_code(io::errc::not_open), class_name);
}

bool is_script_missing(const server_error& error) noexcept {
  return error.text().starts_with("NOSCRIPT No matching script");
}

void check(const client_options& options) {
  const auto refuse = [](const char* problem) {
    throw std::invalid_argument(std::string("gyre::redis::client: ") + problem);
  };
  if (options.max_in_flight == 0) refuse("max_in_flight must be at least 1");
  if (options.max_waiting == 0) refuse("max_waiting must be at least 1");
  if (options.max_sessions == 0) refuse("max_sessions must be at least 1");
  if (options.max_reply == 0) refuse("max_reply must be at least 1");
  if (options.max_connect_attempts == 0) refuse("max_connect_attempts must be at least 1");
  if (options.max_attempts == 0) refuse("max_attempts must be at least 1");
  if (options.reply_timeout <= duration::zero()) refuse("reply_timeout must be above zero");
  if (options.ping_interval <= duration::zero()) refuse("ping_interval must be above zero");
  if (!options.user.empty() && options.password.empty()) refuse("a user needs a password");
}

std::exception_ptr error_in(std::string_view bytes) noexcept try {
  reply_cursor values(bytes);
  const reply_node node = values.next();
  if (node.kind != reply_kind::error) return nullptr;
  return std::make_exception_ptr(server_error(std::string(node.text)));
} catch (...) {
  return std::current_exception();
}

void queued_replies::complete(std::string_view bytes) noexcept {
  if (error_ == nullptr) error_ = error_in(bytes);
}

client_core::client_core(event_loop& loop, const net::host_port& server,
                         const client_options& options, connection_use use,
                         std::shared_ptr<invalidation_listener> cache)
    : pipeline(loop, server, connection_options_of(options, use),
               pipeline_options_of(options, use)),
      options_(options),
      use_(use),
      cache_(std::move(cache)),
      scanner_(options.max_reply) {}

client_metrics client_core::metrics() const noexcept {
  return {.in_flight = in_flight(),
          .waiting = waiting(),
          .sessions = sessions_,
          .connections = connections_,
          .commands = commands_,
          .retries = retries_};
}

// --- Calls ---

void client_core::check_context(const task_context& context) const {
  if (context.stop.stop_requested()) gyre::detail::throw_cancelled(context);
  net::detail::require_loop(loop(), context, class_name);
}

void client_core::throw_needs_session(std::string_view command) {
  throw std::system_error(make_error_code(errc::needs_session), std::string(command));
}

void client_core::throw_refused(std::string_view command) {
  throw std::system_error(make_error_code(errc::command_refused), std::string(command));
}

void client_core::throw_aborted() const {
  throw std::system_error(make_error_code(errc::transaction_aborted), describe());
}

void client_core::prepare_retry(const awaited_reply& reply, std::size_t& attempts) {
  if (is_closed()) std::rethrow_exception(reply.error());
  if (reply.result() == outcome::unsent) return;
  if (--attempts == 0) std::rethrow_exception(reply.error());
  ++retries_;
}

session_slot::session_slot(std::shared_ptr<client_core> client) : client_(std::move(client)) {
  if (client_->sessions_ >= client_->options_.max_sessions) {
    throw std::system_error(make_error_code(errc::too_many_sessions),
                            std::exchange(client_, nullptr)->describe());
  }
  ++client_->sessions_;
}

session_slot::~session_slot() {
  if (client_ != nullptr) --client_->sessions_;
}

task<session> client_core::open_session(shared self) {
  if (self == nullptr) throw_moved_from();
  const task_context& context = co_await gyre::detail::this_context();
  self->check_context(context);
  if (self->is_closed()) throw std::system_error(make_error_code(io::errc::not_open), class_name);
  session_slot slot(self);
  const auto core = std::make_shared<client_core>(self->loop(), self->server(), self->options_,
                                                  connection_use::own);
  session result(core, std::move(slot));
  co_await core->admit();
  core->cancel_admission();
  if (self->is_closed()) throw std::system_error(make_error_code(io::errc::closed), class_name);
  co_return result;
}

void client_core::abandon_replies(std::uint64_t first, std::uint64_t last,
                                  const awaited_reply& reply) noexcept {
  if (use_ == connection_use::own) fail(make_error_code(errc::connection_lost));
  for (; first < last; ++first) abandon(first);
  abandon(last, reply.is_confirmed_by_message() ? &unawaited_ : nullptr);
}

task<subscription> client_core::subscribe(shared self, std::string channel,
                                          subscription_options options) {
  if (self == nullptr) throw_moved_from();
  if (options.max_messages == 0) {
    throw std::invalid_argument("gyre::redis::client::subscribe: max_messages must be at least 1");
  }
  const auto queue = std::make_shared<message_queue>(std::move(channel), options);
  std::size_t attempts = self->max_attempts();
  for (;;) {
    if (!self->try_admit_here()) {
      task<> admission = self->admit();
      co_await std::move(admission);
    }
    if (!self->has_push_) {
      self->cancel_admission();
      std::rethrow_exception(no_messages("subscriptions need Redis 6"));
    }
    self->messages_.add(queue);
    subscription result(self, queue);
    typed_reply<void> reply(true);
    const request_in_flight request(*self, reply, [&](io::buffer& output) {
      write_command(output, queue->is_pattern() ? "PSUBSCRIBE" : "SUBSCRIBE", queue->channel());
    });
    co_await reply.wait();
    if (reply.result() == outcome::complete) {
      reply.take();
      co_return result;
    }
    self->prepare_retry(reply, attempts);
    // The next attempt registers the queue again.
  }
}

void client_core::unsubscribe(const message_queue& queue) noexcept {
  if (!messages_.remove(queue) || !has_push_ || !is_ready()) return;
  try {
    append_internal_command(&unawaited_, queue.is_pattern() ? "PUNSUBSCRIBE" : "UNSUBSCRIBE",
                            queue.channel());
  } catch (const std::exception&) {
    return;  // without memory the server keeps sending messages, which are dropped
  }
}

void client_core::end() noexcept {
  close();
  messages_.end();
}

// --- Login ---

void client_core::begin_login() {
  scanner_ = reply_scanner(options_.max_reply);
  has_push_ = false;
  ++connections_;
  begin_step(login_step::hello);
}

void client_core::begin_step(login_step step) {
  step_ = step;
  const std::string_view user = options_.user.empty() ? "default" : std::string_view(options_.user);
  switch (step) {
    case login_step::hello:
      if (options_.password.empty()) return append_internal_command(&login_, "HELLO", "3");
      return append_internal_command(&login_, "HELLO", "3", "AUTH", user, options_.password);
    case login_step::authenticate:
      if (options_.password.empty()) return begin_step(login_step::name);
      if (options_.user.empty()) return append_internal_command(&login_, "AUTH", options_.password);
      return append_internal_command(&login_, "AUTH", user, options_.password);
    case login_step::name:
      if (options_.name.empty()) return begin_step(login_step::select);
      return append_internal_command(&login_, "CLIENT", "SETNAME", options_.name);
    case login_step::select:
      if (options_.database == 0) return begin_step(login_step::track);
      return append_internal_command(&login_, "SELECT", options_.database);
    case login_step::track:
      if (cache_ == nullptr) return begin_step(login_step::done);
      if (!has_push_) return finish_login(no_messages("client-side caching needs Redis 6"));
      return append_internal_command(&login_, "CLIENT", "TRACKING", "ON", "OPTIN");
    case login_step::done:
      messages_.begin_connection([this](std::string_view channel, bool is_pattern) {
        append_internal_command(&renewal_, is_pattern ? "PSUBSCRIBE" : "SUBSCRIBE", channel);
      });
      return finish_login(nullptr);
  }
}

void client_core::continue_login(std::string_view bytes) noexcept try {
  reply_cursor values(bytes);
  const reply_node node = values.next();
  if (node.kind != reply_kind::error) {
    if (step_ == login_step::hello) {
      if (node.kind != reply_kind::map) return fail(make_error_code(errc::bad_reply));
      has_push_ = true;
      return begin_step(login_step::name);
    }
    return begin_step(static_cast<login_step>(static_cast<int>(step_) + 1));
  }
  // Redis before version 6 does not know HELLO.
  const bool is_unknown =
      node.text.starts_with("ERR unknown command") || node.text.starts_with("NOPROTO");
  if (step_ == login_step::hello && is_unknown) return begin_step(login_step::authenticate);
  finish_login(std::make_exception_ptr(server_error(std::string(node.text))));
} catch (...) {
  fail(std::make_error_code(std::errc::not_enough_memory));
}

void client_core::ping() {
  // A session sends no PING, which would become a part of the user's transaction after MULTI. The
  // commands' names cannot tell whether there is one, as the configuration may rename MULTI.
  if (use_ == connection_use::own) return;
  may_wait_ = false;
  append_internal_command(nullptr, "PING");
}

// --- Replies ---

void client_core::read_input(io::input& input) {
  while (!input.empty()) {
    const auto length = scanner_.scan(input.text());
    if (!length) return fail(make_error_code(length.error()));
    if (!*length) return;
    const std::string_view bytes = input.text().substr(0, **length);
    input.consume(**length);
    const reply_kind kind = kind_of(bytes);
    const bool is_expected =
        kind == reply_kind::push ? take_message(bytes) : take_reply(bytes, kind, false);
    if (!is_expected) return fail(make_error_code(errc::bad_reply));
  }
}

bool client_core::take_message(std::string_view bytes) {
  reply_cursor values(bytes);
  if (messages_.deliver(values)) return true;
  if (values.next().count == 0) return true;
  const std::string_view kind = values.next().text;
  if (kind == "invalidate" && cache_ != nullptr) {
    if (!values.empty()) cache_->invalidate(values);
    return true;
  }
  const bool is_confirmation = kind.ends_with("subscribe");
  return !is_confirmation || take_reply(bytes, reply_kind::push, true);
}

bool client_core::take_reply(std::string_view bytes, reply_kind kind, bool is_message) {
  const std::optional<engines::detail::pending_reply*> front_reply = front();
  if (!front_reply) return false;
  auto* const reply = static_cast<expected_reply*>(*front_reply);
  const bool awaits_message = reply != nullptr && reply->is_confirmed_by_message();
  if (is_message != awaits_message && kind != reply_kind::error) return false;
  pop_front();
  if (reply != nullptr) reply->complete(bytes);
  return true;
}

}  // namespace gyre::redis::detail
