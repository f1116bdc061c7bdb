// SPDX-License-Identifier: Apache-2.0
// route_group: routes of a server that share a prefix and middleware.
//
//     auto api = server.group("/api/v1");
//     api.get("/status", show_status);  // GET /api/v1/status
//     auto admin = api.group("/admin");
//     admin.use(require_admin);
//     admin.post("/users", add_user);  // POST /api/v1/admin/users, inside require_admin
#pragma once

#include <gyre/http/handler.hpp>
#include <gyre/http/method.hpp>
#include <gyre/http/route_verbs.hpp>
#include <gyre/http/server_options.hpp>

#include <memory>
#include <string_view>

namespace gyre::http {

namespace detail {
class server_core;
struct route_scope;
}  // namespace detail

/// A handle to a group of a server's routes, made by server::group(). Copies refer to the same
/// group.
///
/// The prefix is empty, or a pattern such as "/tenants/{tenant}", without a '/' or a {rest...} at
/// its end. The patterns of the group's routes begin with it; the pattern "" is the prefix itself.
///
/// The middleware of a group wraps the handlers of its routes, whichever was added first: inside
/// that of the server, and around that of the groups inside it. So that paths cannot be probed past
/// an authentication, and CORS can respond to OPTIONS, it is also called for requests without a
/// route:
///
/// - If the path has routes, but not for the method, that of the group of such a route. An OPTIONS
///   request with Access-Control-Request-Method belongs to the route for that method.
/// - If the path has no route, that of the group with the longest prefix of the path. If several
///   groups have the same prefix, the first one counts.
///
/// A route that was added to the server, or to another group, never belongs to a group, even if its
/// pattern begins with the prefix.
///
/// Thread-safety: none; groups are made and filled before server::start().
/// Lifetime: without effect once the server was destroyed.
/// Errors: group() throws std::invalid_argument for a malformed prefix. After server::start() all
/// functions throw std::logic_error. For the functions that add routes see route_verbs.
/// Complexity: a request with a route costs the same with and without groups.
class route_group : public route_verbs<route_group> {
 public:
  /// Makes a group inside this one: its prefix is appended to that of this group.
  [[nodiscard]] route_group group(std::string_view prefix);
  /// Adds a middleware. The first one added is the outermost of the group.
  route_group& use(middleware middleware);
  /// The whole prefix, that of the groups around this one included.
  [[nodiscard]] std::string_view prefix() const noexcept;

 private:
  friend route_verbs;
  friend class server;
  route_group(std::shared_ptr<detail::server_core> core, detail::route_scope& scope) noexcept;
  route_group& add_route(method_set methods, std::string_view pattern, handler function,
                         route_options options);

  std::shared_ptr<detail::server_core> core_;
  detail::route_scope* scope_;
};

}  // namespace gyre::http
