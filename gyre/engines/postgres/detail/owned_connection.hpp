// SPDX-License-Identifier: Apache-2.0
// owned_connection: a connection for one transaction or session at a time.
#pragma once

#include <gyre/engines/postgres/detail/connection_core.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace gyre::postgres::detail {

/// The owned connections of a client, which closes them with itself.
using connection_list = std::vector<std::shared_ptr<connection_core>>;

/// The connection of a net::connection_pool, which ends with it.
class owned_connection {
 public:
  /// Throws std::bad_alloc.
  owned_connection(std::shared_ptr<connection_core> core, std::shared_ptr<connection_list> list);
  owned_connection(const owned_connection&) = delete;
  owned_connection& operator=(const owned_connection&) = delete;
  ~owned_connection();

  /// Whether the server is in the state in which it was after the login, but for settings.
  bool is_reusable() const;
  bool is_connected() const noexcept { return core_->connection_number() != 0; }
  const std::shared_ptr<connection_core>& core() const noexcept { return core_; }

 private:
  std::shared_ptr<connection_core> core_;
  std::shared_ptr<connection_list> list_;
};

}  // namespace gyre::postgres::detail
