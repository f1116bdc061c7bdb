// SPDX-License-Identifier: Apache-2.0
// client_core: the connection of a Redis client: login, replies and messages.
#pragma once

#include <gyre/engines/detail/kept_argument.hpp>
#include <gyre/engines/detail/pipeline.hpp>
#include <gyre/engines/redis/client_options.hpp>
#include <gyre/engines/redis/command.hpp>
#include <gyre/engines/redis/detail/awaited_reply.hpp>
#include <gyre/engines/redis/detail/command_rules.hpp>
#include <gyre/engines/redis/detail/invalidation_listener.hpp>
#include <gyre/engines/redis/detail/message_dispatcher.hpp>
#include <gyre/engines/redis/detail/reply_scanner.hpp>
#include <gyre/engines/redis/error.hpp>
#include <gyre/engines/redis/script.hpp>
#include <gyre/engines/redis/subscription.hpp>
#include <gyre/engines/redis/subscription_options.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/task.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/named_wait.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::redis {
class session;
}

namespace gyre::redis::detail {

class client_core;
class reply_cache;

/// The slot of a session among those that its client allows, from its opening to its end.
class session_slot {
 public:
  session_slot() noexcept = default;
  /// Throws std::system_error (errc::too_many_sessions).
  explicit session_slot(std::shared_ptr<client_core> client);
  session_slot(session_slot&&) noexcept = default;
  session_slot& operator=(session_slot&& other) noexcept {
    session_slot replacement(std::move(other));
    std::swap(client_, replacement.client_);
    return *this;
  }
  ~session_slot();

 private:
  std::shared_ptr<client_core> client_;
};

/// The use of a connection.
enum class connection_use : std::uint8_t {
  shared,  ///< all coroutines of a client use it
  own,     ///< one session uses it
};

/// Throws std::system_error (io::errc::not_open): the client was moved from.
[[noreturn, gnu::cold]] void throw_moved_from();

/// Whether the server does not know the hash of a script. A script may itself return an error of
/// the kind NOSCRIPT, and must then not be carried out again.
bool is_script_missing(const server_error& error) noexcept;

/// Throws std::invalid_argument for options that make no sense.
void check(const client_options& options);

/// Returns the error that a complete reply is, or null.
std::exception_ptr error_in(std::string_view bytes) noexcept;

/// The first error among the replies of a transaction's commands, which are otherwise QUEUED.
class queued_replies final : public expected_reply {
 public:
  void complete(std::string_view bytes) noexcept override;
  void lose(const std::exception_ptr&, bool) noexcept override {}
  const std::exception_ptr& error() const noexcept { return error_; }

 private:
  std::exception_ptr error_;
};

template <class T>
using transaction_value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

/// Thread-safety: the loop's thread.
class client_core final : public engines::detail::pipeline {
 public:
  using shared = std::shared_ptr<client_core>;

  client_core(event_loop& loop, const net::host_port& server, const client_options& options,
              connection_use use = connection_use::shared,
              std::shared_ptr<invalidation_listener> cache = nullptr);

  client_metrics metrics() const noexcept;
  std::size_t max_attempts() const noexcept { return options_.max_attempts; }

  /// Sends a command, and waits for its reply. After a lost connection it sends it again, if it may
  /// be used further times, or if the server has not got it.
  template <class T, class Command>
  static task<T> run(shared self, Command command, std::size_t attempts);
  /// Sends a script's hash, and its text if the server does not know the hash.
  template <class T, class Keys, class... Arguments>
  static task<T> evaluate(shared self, const script& code, Keys&& keys, Arguments&&... arguments) {
    return run_script<T, engines::detail::kept_argument_t<Keys>>(
        std::move(self), code, std::forward<Keys>(keys),
        engines::detail::keep(std::forward<Arguments>(arguments)...));
  }
  /// Sends commands as one transaction.
  template <class... Commands>
  static task<std::tuple<transaction_value<typename Commands::result_type>...>> transact(
      shared self, Commands... commands);

  /// Opens a connection of its own.
  static task<session> open_session(shared self);

  /// Subscribes, and waits until the server has confirmed it.
  static task<subscription> subscribe(shared self, std::string channel,
                                      subscription_options options);
  /// Removes a subscription's queue; the last one of its channel unsubscribes.
  void unsubscribe(const message_queue& queue) noexcept;
  void end() noexcept;

 private:
  friend session_slot;
  friend reply_cache;
  using outcome = awaited_reply::outcome;

  /// A request of a coroutine, from its admission to its reply. If the coroutine stops waiting
  /// earlier, the reply is dropped.
  class request_in_flight {
   public:
    /// Writes by `write(output)` a request that has `prefix_count` replies for `prefix_reply`, and
    /// then `reply`.
    template <class Write>
    request_in_flight(client_core& core, awaited_reply& reply, Write write,
                      expected_reply* prefix_reply = nullptr, std::size_t prefix_count = 0);
    request_in_flight& operator=(request_in_flight&&) = delete;
    ~request_in_flight() {
      if (reply_.result() == outcome::none) core_.abandon_replies(first_, last_, reply_);
    }

   private:
    client_core& core_;
    awaited_reply& reply_;
    std::uint64_t first_ = 0;
    std::uint64_t last_ = 0;
  };

  /// The reply to one step of the login, such as HELLO or SELECT; continues the login.
  class login_reply final : public expected_reply {
   public:
    explicit login_reply(client_core& core) noexcept : core_(core) {}
    void complete(std::string_view bytes) noexcept override { core_.continue_login(bytes); }
    void lose(const std::exception_ptr&, bool) noexcept override {}

   private:
    client_core& core_;
  };
  /// The confirmation, by a message, of a change of subscriptions for which no caller waits.
  class unawaited_confirmation final : public expected_reply {
   public:
    void complete(std::string_view) noexcept override {}
    void lose(const std::exception_ptr&, bool) noexcept override {}
    bool is_confirmed_by_message() const noexcept override { return true; }
  };
  /// The reply to a SUBSCRIBE that follows a reconnect. Replies come in the order of the channels.
  class renewal_reply final : public expected_reply {
   public:
    explicit renewal_reply(message_dispatcher& messages) noexcept : messages_(messages) {}
    void complete(std::string_view bytes) noexcept override {
      messages_.end_renewal(error_in(bytes));
    }
    void lose(const std::exception_ptr&, bool) noexcept override {}
    bool is_confirmed_by_message() const noexcept override { return true; }

   private:
    message_dispatcher& messages_;
  };
  enum class login_step : std::uint8_t { hello, authenticate, name, select, track, done };

  template <class T, class Keys, class... Arguments>
  static task<T> run_script(shared self, const script& code, Keys keys,
                            std::tuple<Arguments...> arguments);
  // Throws operation_cancelled after a stop, and io::errc::wrong_thread on another thread.
  void check_context(const task_context& context) const;
  bool try_admit_here() noexcept { return loop().in_loop_thread() && try_admit(); }
  // Throws for a command that must not be sent over this connection. Returns whether the command
  // may block in the server.
  template <class Command>
  bool check_rule(const Command& command) const {
    const command_rule rule = rule_of(command);
    if (rule == command_rule::shared) [[likely]]
      return false;
    if (rule == command_rule::refused) throw_refused(command.name());
    if (use_ == connection_use::shared) throw_needs_session(command.name());
    return rule == command_rule::waiting;
  }
  [[noreturn, gnu::cold]] static void throw_needs_session(std::string_view command);
  [[noreturn, gnu::cold]] static void throw_refused(std::string_view command);
  [[noreturn, gnu::cold]] void throw_aborted() const;
  // Throws the error of a lost command, unless the command may be sent once more.
  void prepare_retry(const awaited_reply& reply, std::size_t& attempts);
  void abandon_replies(std::uint64_t first, std::uint64_t last,
                       const awaited_reply& reply) noexcept;

  void begin_login() override;
  void read_input(io::input& input) override;
  void ping() override;
  bool needs_connection() const noexcept override { return messages_.has_subscriptions(); }
  bool is_reply_due() const noexcept override { return !may_wait_; }
  void connection_ended() noexcept override {
    if (cache_ != nullptr) cache_->clear();
  }

  // Returns false for a message or a reply that nobody has requested.
  bool take_message(std::string_view bytes);
  bool take_reply(std::string_view bytes, reply_kind kind, bool is_message);
  void continue_login(std::string_view bytes) noexcept;
  void begin_step(login_step step);
  /// Appends a command of the client itself.
  template <class... Arguments>
  void append_internal_command(expected_reply* reply, std::string_view name,
                               const Arguments&... arguments) {
    const std::uint64_t begin_position = position();
    write_command(output(), name, arguments...);
    enter_internal_request(reply, begin_position);
  }

  const client_options options_;
  const connection_use use_;
  // The cache of a cached_client; null for other clients.
  const std::shared_ptr<invalidation_listener> cache_;
  bool may_wait_ = false;  // whether the session's command may block in the server
  std::size_t sessions_ = 0;
  reply_scanner scanner_;
  login_step step_ = login_step::done;
  login_reply login_{*this};
  unawaited_confirmation unawaited_;
  bool has_push_ = false;  // whether the server sends messages beside replies (RESP3)
  message_dispatcher messages_;
  renewal_reply renewal_{messages_};
  std::uint64_t connections_ = 0;
  std::uint64_t commands_ = 0;
  std::uint64_t retries_ = 0;
};

template <class Write>
client_core::request_in_flight::request_in_flight(client_core& core, awaited_reply& reply,
                                                  Write write, expected_reply* prefix_reply,
                                                  std::size_t prefix_count)
    : core_(core), reply_(reply) {
  io::buffer& output = core.output();
  const std::size_t size = output.size();
  const std::uint64_t position = core.position();
  try {
    core.reserve_entries(prefix_count + 1);
    write(output);
  } catch (...) {
    output.drop_last(output.size() - size);
    core.cancel_admission();
    throw;
  }
  for (std::size_t replies_left = prefix_count; replies_left > 0; --replies_left)
    core.enter_internal_request(prefix_reply, position);
  last_ = core.enter_request(&reply, position);
  first_ = last_ - prefix_count;
  ++core.commands_;
}

template <class T, class Command>
task<T> client_core::run(shared self, Command command, std::size_t attempts) {
  if (self == nullptr) throw_moved_from();
  const bool may_wait = self->check_rule(command);
  const task_context& context = co_await gyre::detail::this_context();
  if (context.stop.stop_requested()) gyre::detail::throw_cancelled(context);
  const trace::detail::named_wait record(trace::detail::event_kind::command, command.name());
  for (;;) {
    if (!self->try_admit_here()) {
      task<> admission = self->admit();
      co_await std::move(admission);
    }
    self->may_wait_ = may_wait;
    typed_reply<T> reply;
    const request_in_flight request(*self, reply,
                                    [&](io::buffer& output) { command.write(output); });
    co_await reply.wait();
    if (reply.result() == outcome::complete) co_return reply.take();
    self->prepare_retry(reply, attempts);
  }
}

template <class T, class Keys, class... Arguments>
task<T> client_core::run_script(shared self, const script& code, Keys keys,
                                std::tuple<Arguments...> arguments) {
  using stored_keys = std::remove_cvref_t<Keys>;
  try {
    task<T> by_hash =
        run<T>(self, evaluation<stored_keys, Arguments...>(code, keys, arguments, false), 1);
    co_return co_await std::move(by_hash);
  } catch (const server_error& error) {
    if (!is_script_missing(error)) throw;
  }
  task<T> by_text =
      run<T>(self, evaluation<stored_keys, Arguments...>(code, keys, arguments, true), 1);
  co_return co_await std::move(by_text);
}

template <class... Commands>
task<std::tuple<transaction_value<typename Commands::result_type>...>> client_core::transact(
    shared self, Commands... commands) {
  using values = std::tuple<transaction_value<typename Commands::result_type>...>;
  if (self == nullptr) throw_moved_from();
  (self->check_rule(commands), ...);
  const task_context& context = co_await gyre::detail::this_context();
  if (context.stop.stop_requested()) gyre::detail::throw_cancelled(context);
  const trace::detail::named_wait record(trace::detail::event_kind::command, "MULTI");
  std::size_t attempts = 1;  // a lost transaction may have been executed, so it is not repeated
  for (;;) {
    if (!self->try_admit_here()) {
      task<> admission = self->admit();
      co_await std::move(admission);
    }
    self->may_wait_ = false;
    queued_replies queue_replies;
    typed_reply<std::optional<values>> reply;
    const request_in_flight request(
        *self, reply,
        [&](io::buffer& output) {
          write_command(output, "MULTI");
          (commands.write(output), ...);
          write_command(output, "EXEC");
        },
        &queue_replies, 1 + sizeof...(commands));
    co_await reply.wait();
    if (reply.result() == outcome::complete) {
      if (queue_replies.error()) std::rethrow_exception(queue_replies.error());
      std::optional<values> results = reply.take();
      if (!results) self->throw_aborted();
      co_return std::move(*results);
    }
    self->prepare_retry(reply, attempts);
  }
}

}  // namespace gyre::redis::detail
