// SPDX-License-Identifier: Apache-2.0
// connection_listing: the servers whose connections an inspector shows.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gyre::http::detail {

/// A connection as its loop has described it.
struct listed_connection {
  std::string server;
  std::uint64_t id = 0;
  std::string peer;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_sent = 0;
  std::size_t pending_output = 0;
};

/// The connections of all servers, as far as their loops have responded in time.
struct listed_connections {
  std::vector<listed_connection> connections;
  bool is_complete = true;  // whether all loops have responded, and no limit was reached
};

/// Thread-safety: any thread.
class connection_listing {
 public:
  [[nodiscard]] std::uint64_t add(std::string name, net::tcp_server& server);
  void remove(std::uint64_t number) noexcept;

  /// Asks the loops of all servers for at most `max_entries` connections, within `limit`.
  [[nodiscard]] static task<listed_connections> list(std::shared_ptr<connection_listing> self,
                                                     std::size_t max_entries, duration limit);

 private:
  class answer;
  struct shown_server {
    std::string name;
    net::tcp_server* server;
  };

  std::mutex mutex_;  // guards the members below, and keeps the servers alive during a call
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, shown_server> servers_;
};

}  // namespace gyre::http::detail
