// SPDX-License-Identifier: Apache-2.0
// cancel_request: asks a PostgreSQL server, over a connection of its own, to cancel the statement
// that another connection executes.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/tcp_client.hpp>

#include <memory>

namespace gyre::postgres::detail {

/// Connects, sends a request, and waits until the server closes the connection: then it has sent
/// its signal to the process of the other connection.
///
/// Thread-safety: the loop's thread. Lifetime: must not be destroyed within `on_end`.
class cancel_request {
 public:
  /// `request`: the message. `on_end(was_delivered)` is called once, unless the object is destroyed
  /// first.
  cancel_request(event_loop& loop, const net::host_port& server,
                 std::shared_ptr<const net::transport> transport, duration connect_timeout,
                 io::buffer request, move_only_function<void(bool was_delivered)> on_end);

 private:
  void end(bool was_delivered);

  io::buffer request_;
  bool is_sent_ = false;
  bool has_ended_ = false;
  move_only_function<void(bool)> on_end_;
  net::tcp_client client_;
};

}  // namespace gyre::postgres::detail
