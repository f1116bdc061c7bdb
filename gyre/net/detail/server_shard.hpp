// SPDX-License-Identifier: Apache-2.0
// server_shard: a tcp_server on one of its loops.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/flag_set.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/detail/deferred_release.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/detail/accept_policy.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/detail/layer_opening.hpp>
#include <gyre/net/detail/server_core.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/proxy_protocol.hpp>
#include <gyre/net/released_connection.hpp>
#include <gyre/net/socket.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <system_error>

namespace gyre::net::detail {

class proxy_layer;

/// The server on one loop.
///
/// Thread-safety: members belong to the loop's thread, but for those marked for any thread.
class server_shard final : public connection_group {
 public:
  /// Makes the part of `core` on `loop`. May be called from any thread.
  server_shard(server_core& core, event_loop& loop);
  ~server_shard() override;

  void open(socket listening_socket, bool is_own);
  void set_hold(server_core::hold reason, bool is_held) noexcept;
  /// Applies changes of the server that other loops, or earlier turns, have made.
  void apply_server_changes();
  /// Takes a connection that was accepted or adopted. `released_state`: null, or the state of a
  /// connection that was open already.
  void accepted(unique_fd connection, const endpoint& peer,
                std::unique_ptr<released_connection> released_state = nullptr);
  void adopted(unique_fd connection, const endpoint& peer,
               std::unique_ptr<released_connection> released_state);
  void adopt_accepted(unique_fd connection, const endpoint& peer,
                      std::unique_ptr<released_connection> released_state);
  void stop(std::chrono::nanoseconds timeout);

  /// The number of connections assigned to this shard. May be used on any thread.
  gyre::detail::atomic<std::size_t> assigned_connections{0};
  /// Runs apply_server_changes() in a later turn of the loop, by
  /// server_core::post_server_changes().
  gyre::detail::deferred_release<server_shard> changes_release{
      [](std::shared_ptr<server_shard> target, gyre::detail::release_point point) {
        if (point == gyre::detail::release_point::loop_turn) target->apply_server_changes();
      }};

 private:
  class acceptor;

  void on_accepting_paused(std::error_code error, const accept_policy::pause& pause);
  void on_connection_begun(tcp_connection& connection) override;
  void on_connection_ended(tcp_connection& connection) noexcept override;
  void on_connection_gone() override;
  void on_connection_drained(tcp_connection& connection) override;
  // An accepted connection whose layer opens.
  struct opening_connection {
    endpoint peer;
    proxy_layer* proxy = nullptr;  // reads the header while `peer` is the proxy; otherwise null
    std::optional<proxy_header> header = std::nullopt;
    std::unique_ptr<layer_opening> layer_start = nullptr;
  };
  void open_layer(unique_fd connection, opening_connection&& arrival,
                  std::unique_ptr<layer> protocol);
  /// Called when the opening of a layer has ended; destroys `arrival`.
  void on_opening_ended(opening_connection& arrival, std::error_code reason);
  void on_header_ended(unique_fd connection, const endpoint& proxy, proxy_layer& layer,
                       std::error_code reason);
  /// `early_bytes`: bytes that came with the header of a proxy.
  void serve_connection(unique_fd connection, const endpoint& peer,
                        std::span<const std::byte> early_bytes = {});
  bool admit_peer(const endpoint& peer) noexcept;
  void report_no_layer(const endpoint& peer, const std::exception_ptr& exception);
  std::optional<io::handle_kind> kind_of(const unique_fd& connection, const endpoint& peer,
                                         bool was_opened) const noexcept;
  void begin_connection(unique_fd connection, const endpoint& peer, std::unique_ptr<layer> protocol,
                        std::span<const std::byte> early_bytes = {}, bool was_opened = false);
  void close_others() noexcept override;
  void refuse_assigned() noexcept;
  void release_assigned() noexcept;
  void drain_acceptors();
  void note_accepting_ended() noexcept;
  void advance_stop();

  server_core& core_;
  std::list<acceptor> acceptors_;
  std::list<opening_connection> opening_connections_;
  std::optional<proxy_header> proxy_header_;  // the header for the connection that begins next
  gyre::detail::flag_set<server_core::hold> holds_;

  // The stages of a stop: `grace_over` begins at grace_ends_.
  enum class stop_stage : std::uint8_t { none, begun, grace_over };
  stop_stage stage_ = stop_stage::none;
  bool has_accepting_ended_ = false;
  steady_time grace_ends_{};
  steady_time stop_by_{};
  std::optional<timer> stop_timer_;  // reset by close_others(): the group may outlive the loop
};

}  // namespace gyre::net::detail
