// SPDX-License-Identifier: Apache-2.0
// tcp_client::core: a client's connection, its attempts to connect, and the intent to be connected.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/relaxed_counter.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/net/detail/byte_quota.hpp>
#include <gyre/net/detail/client_commands.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/detail/connection_race.hpp>
#include <gyre/net/detail/connector.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/net/tcp_client.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

namespace gyre::net {

namespace detail {

/// Settings that connections refer to, and that are constructed before them.
struct client_settings {
  tcp_client_options client_options;
  connection_handlers client_handlers;
};

}  // namespace detail

/// Thread-safety: none but the members marked for any thread; the rest belongs to the loop's
/// thread.
class tcp_client::core final : public detail::client_settings,
                               public detail::connection_group,
                               private detail::connector::owner,
                               public std::enable_shared_from_this<core> {
 public:
  core(event_loop& loop, tcp_client_options options);

  /// Makes the loop run `commands`. Any thread.
  void post_commands();

  void connect(const endpoint& server);
  void connect(resolver& names, std::string host, service port);
  void disconnect() noexcept;
  bool send(std::span<const std::byte> bytes);

  tcp_connection* connection() const noexcept { return connection_; }
  /// Any thread.
  bool connected() const noexcept { return is_connected_.get() != 0; }
  tcp_client_metrics metrics() const noexcept;

  /// Throws std::logic_error when the handlers may be in use. Any thread.
  void check_settable() const;

  move_only_function<void(std::error_code, std::size_t, bool)> connect_failed_handler;
  gyre::detail::atomic<bool> in_use{false};  // since the first connect()
  detail::byte_quota posted;                 // bytes of other threads that wait for the loop
  detail::client_commands<core> commands;    // calls of other threads that wait for the loop

 private:
  void connected(unique_fd socket) override;
  void connect_failed(std::error_code why) override;
  void connection_begins(tcp_connection& begun) override;
  void connection_ends(tcp_connection& ended) noexcept override;
  void connection_gone() override;
  void close_others() noexcept override;

  // A host whose name is to be looked up; else there is just the endpoint.
  struct named_host {
    resolver* names;
    std::string name;
    service port;
  };

  void run_commands();
  void attempt_failed(std::error_code why);
  void print_failure(std::error_code why) const noexcept;
  void set_target(std::optional<named_host> host);
  bool is_connected_to_target() const noexcept {
    return wanted_ && connection_ != nullptr && connection_->can_send();
  }
  void attempt();
  void look_up();
  void resolved(const resolve_result& found);
  void try_next();
  void try_server();
  void attempt_later();
  std::chrono::nanoseconds next_delay() noexcept;
  void reset_target() noexcept;
  void end_lookups() noexcept;

  std::optional<named_host> host_;
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
  detail::connector connector_;
  std::optional<timer> retry_;
  std::uint64_t random_;
  io::buffer kept_;  // to be sent first
  gyre::detail::published_counter attempts_, failed_, succeeded_, is_connected_;
};

}  // namespace gyre::net
