// SPDX-License-Identifier: Apache-2.0
// connection_extra: members that few connections need, kept apart from the others.
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/move_only_any.hpp>
#include <gyre/net/detail/connection_backlog.hpp>
#include <gyre/net/detail/connection_control.hpp>
#include <gyre/net/detail/connection_io.hpp>
#include <gyre/net/detail/connection_layer.hpp>

#include <memory>
#include <utility>

namespace gyre::net::detail {

/// Members of a connection that has a context, references or a backlog.
struct connection_extra : gyre::detail::slab_object {
  move_only_any context;
  connection_control* control = nullptr;
  std::unique_ptr<connection_backlog> backlog;
};

static_assert(sizeof(connection_extra) <= 32, "tcp_connection says so");

/// Members of a connection that has a layer.
struct layered_extra final : connection_extra {
  explicit layered_extra(std::unique_ptr<layer> protocol) noexcept
      : layer_state(std::move(protocol)) {}

  connection_layer layer_state;
};

/// Returns the layer of a connection for which has_layer() is true.
inline connection_layer& layer_of(const connection_io& connection) noexcept {
  return static_cast<layered_extra*>(connection.existing_extra())->layer_state;
}

/// Returns the backlog of a connection; null if nothing has had to wait yet.
inline connection_backlog* backlog_of(const connection_io& connection) noexcept {
  const connection_extra* const extra = connection.existing_extra();
  return extra == nullptr ? nullptr : extra->backlog.get();
}

}  // namespace gyre::net::detail
