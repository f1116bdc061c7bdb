// SPDX-License-Identifier: Apache-2.0
// tcp_client::core: a client's connection, its attempts to connect, and the intent to be connected.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/net/detail/byte_quota.hpp>
#include <gyre/net/detail/connect_attempt.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/detail/layer_opening.hpp>
#include <gyre/net/tcp_client.hpp>

#include <deque>
#include <mutex>

namespace gyre::net {

namespace detail {

/// A queue of the calls of other threads that wait for a client's loop: sends, connects and
/// disconnects, first in, first out over all threads. Connects and disconnects in a row are merged,
/// as only the last one matters: so there is at most one more of them than of sends, which have a
/// quota. `Core` executes the commands.
template <class Core>
class client_commands {
 public:
  using function = move_only_function<void(Core&)>;

  /// One call, or several that were merged.
  struct command {
    void operator()(Core& core) {
      if (disconnects) core.disconnect();
      if (then) then(core);
    }
    function then = {};
    bool is_connect = false;
    bool disconnects = false;  // before `then`
  };

  /// Each adds a command, and calls `post`, which must make the loop call take(), if the queue was
  /// empty. Throws the exceptions of `post`, and then adds nothing. Any thread.
  void send(function sending, const auto& post) {
    const std::scoped_lock lock(mutex_);
    add(post).then = std::move(sending);
  }
  void connect(function connecting, const auto& post) {
    const std::scoped_lock lock(mutex_);
    last_connect(post).then = std::move(connecting);
  }
  void disconnect(const auto& post) {
    const std::scoped_lock lock(mutex_);
    command& merged = last_connect(post);
    merged.disconnects = true;
    merged.then = nullptr;
  }

  /// The next command. None: the queue is empty, and the next call posts again. The loop's thread.
  std::optional<command> take() {
    const std::scoped_lock lock(mutex_);
    posted_ = !waiting_.empty();
    if (!posted_) return std::nullopt;
    std::optional<command> next(std::move(waiting_.front()));
    waiting_.pop_front();
    return next;
  }
  /// Any thread.
  std::size_t size() const {
    const std::scoped_lock lock(mutex_);
    return waiting_.size();
  }

 private:
  command& last_connect(const auto& post) {
    if (!waiting_.empty() && waiting_.back().is_connect) return waiting_.back();
    command& added = add(post);
    added.is_connect = true;
    return added;
  }
  // Posted under the lock: a call that finds the queue posted may count on it.
  command& add(const auto& post) {
    command& added = waiting_.emplace_back();
    if (posted_) return added;
    try {
      post();
    } catch (...) {
      waiting_.pop_back();
      throw;
    }
    posted_ = true;
    return added;
  }

  mutable std::mutex mutex_;
  std::deque<command> waiting_;
  bool posted_ = false;
};

/// Settings that connections refer to, and that are constructed before them.
struct client_settings {
  tcp_client_options client_options;
  connection_handlers client_handlers;
};

}  // namespace detail

/// Thread-safety: members belong to the loop's thread, but for those marked for any thread.
class tcp_client::core final : public detail::client_settings,
                               public detail::connection_group,
                               public std::enable_shared_from_this<core> {
 public:
  core(event_loop& loop, tcp_client_options options);

  /// Makes the loop run `commands`. Any thread.
  void post_commands();

  void connect(const endpoint& server);
  /// Without `names`: with a resolver of the client's own.
  void connect(resolver* names, std::string host, service port);
  void disconnect() noexcept;
  bool send(std::span<const std::byte> bytes);

  tcp_connection* connection() const noexcept { return connection_; }
  /// Any thread.
  bool connected() const noexcept { return is_connected_.get() != 0; }
  tcp_client_metrics metrics() const noexcept;

  /// Throws std::logic_error when the handlers may be in use. Any thread.
  void check_settable() const;

  move_only_function<void(std::error_code, std::size_t, bool)> connect_failed_handler;
  std::optional<host_port> constructed_for;  // the server of connect() without one
  gyre::detail::atomic<bool> in_use{false};  // since the first connect()
  detail::byte_quota posted;                 // bytes of other threads that wait for the loop
  detail::client_commands<core> commands;    // calls of other threads that wait for the loop

 private:
  void connection_begins(tcp_connection& begun) override;
  void connection_ends(tcp_connection& ended) noexcept override;
  void connection_gone() override;
  void close_others() noexcept override {
    reset_target();
    own_names_.reset();
  }

  // A host whose name is to be looked up; else there is just the endpoint.
  struct named_host {
    resolver* names;  // null: the client's own
    std::string name;
    service port;
  };

  struct connect_request final : io::connect_request {
    connect_request(io::handle& socket, core& by) noexcept
        : io::connect_request(socket, by.server_.data(), by.server_.size(), &core::on_connected),
          self(&by) {}
    core* self;
  };
  // Connecting to `server_`, with a time limit.
  struct attempt_under_way {
    explicit attempt_under_way(core& by);
    std::optional<io::result> early_result;  // else there is none before the deadline
    std::optional<io::descriptor> descriptor;
    std::optional<connect_request> request;
    timer deadline;
  };

  void run_commands();
  void attempt_failed(std::error_code why);
  void print_failure(std::error_code why) const noexcept;
  void set_target(std::optional<named_host> host);
  bool is_connected_to_target() const noexcept {
    return wanted_ && connection_ != nullptr && connection_->can_send();
  }
  void attempt();
  void fail_attempt_later(std::error_code why);
  resolver& names_of(const named_host& host);
  void resolved(const resolve_result& found);
  void try_next();
  void try_server();
  std::optional<io::result> start_connecting();
  static void on_connected(io::request& request, io::result result);
  void end_connecting(io::result result);
  void begin_handshake(unique_fd connected);
  void end_handshake(std::error_code why);
  void begin_connection(unique_fd connected, std::unique_ptr<layer> protocol);
  bool is_attempting() const noexcept { return connecting_ || handshake_; }
  void attempt_later();
  std::chrono::nanoseconds next_delay() noexcept;
  void reset_target() noexcept;
  void end_lookups() noexcept;

  std::optional<named_host> host_;
  std::optional<resolver> own_names_;
  lookup first_family_;  // and all addresses, which join in: as connect() looks hosts up
  lookup all_addresses_;
  detail::candidate_list candidates_;  // of this attempt
  std::error_code last_failure_;       // in this attempt
  endpoint server_;                    // the one being tried, or tried last
  bool wanted_ = false;                // there is to be a connection
  bool reconnect_at_once_ = false;     // when the present connection has gone
  std::uint64_t target_changes_ = 0;   // by connect() and disconnect()
  std::size_t failures_ = 0;           // attempts that failed in a row
  std::size_t fruitless_ = 0;          // failures_, and connections that received nothing
  tcp_connection* connection_ = nullptr;
  std::optional<attempt_under_way> connecting_;
  std::optional<detail::layer_opening> handshake_;  // after that
  std::optional<timer> retry_;
  gyre::detail::splitmix64 random_;
  io::buffer kept_;  // to be sent first
  gyre::detail::published_counter attempts_, failed_, succeeded_, is_connected_;
};

}  // namespace gyre::net
