// SPDX-License-Identifier: Apache-2.0
// listener: the connection on which a PostgreSQL client receives notifications.
#pragma once

#include <gyre/engines/postgres/detail/connection_core.hpp>
#include <gyre/engines/postgres/detail/notification_queue.hpp>
#include <gyre/engines/postgres/subscription.hpp>
#include <gyre/engines/postgres/subscription_options.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/task/task.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::postgres::detail {

/// Listens to the channels of all subscriptions. It stays connected while there are any, and after
/// a reconnect listens again.
///
/// Thread-safety: the loop's thread.
/// Lifetime: shared by the client, its subscriptions and calls.
class listener final : public connection_observer {
 public:
  using shared = std::shared_ptr<listener>;

  listener(event_loop& loop, const net::host_port& server, connection_options options);
  ~listener() override;

  /// Subscribes, and waits until the server has confirmed it.
  static task<subscription> listen(shared self, std::string channel, subscription_options options);
  /// Removes a subscription's queue; with the last one of its channel, the server stops sending
  /// notifications of the channel.
  void remove(const notification_queue& queue) noexcept;
  /// Ends all subscriptions, because the client was closed.
  void end() noexcept;

 private:
  void on_login(connection_core& connection) override;
  void on_notification(std::string_view channel, std::string_view payload,
                       std::int32_t process) noexcept override;

  event_loop& loop_;
  // The name of a channel of this listener alone, on which it notifies itself after a new
  // connection listens to all channels.
  const std::string confirmations_;
  const net::host_port server_;
  const connection_options options_;
  std::shared_ptr<connection_core> core_;
  std::map<std::string, std::vector<std::shared_ptr<notification_queue>>, std::less<>> channels_;
  bool has_ended_ = false;
};

}  // namespace gyre::postgres::detail
