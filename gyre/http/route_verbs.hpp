// SPDX-License-Identifier: Apache-2.0
// route_verbs: the functions by which a server, or a group of its routes, gets routes.
//
//     server.get("/notes/{id}", show_note).delete_("/notes/{id}", remove_note);
//     server.route({method::put, method::patch}, "/notes/{id}", change_note);
//     server.any("/legacy/{path...}", forward);
#pragma once

#include <gyre/http/handler.hpp>
#include <gyre/http/method.hpp>
#include <gyre/http/server_options.hpp>

#include <string_view>
#include <utility>

namespace gyre::http {

/// The base of server and route_group, which are `Table`. The functions return the table, so that
/// calls can be chained. basic_router explains patterns, and which of several wins.
///
/// Errors: std::invalid_argument for a malformed or repeated pattern; std::logic_error after
/// server::start().
template <class Table>
class route_verbs {
 public:
  /// Adds a route for GET, whose handler also handles HEAD.
  Table& get(std::string_view pattern, handler function, route_options options = {}) {
    return route(method::get, pattern, std::move(function), options);
  }
  /// Adds a route for POST.
  Table& post(std::string_view pattern, handler function, route_options options = {}) {
    return route(method::post, pattern, std::move(function), options);
  }
  /// Adds a route for PUT.
  Table& put(std::string_view pattern, handler function, route_options options = {}) {
    return route(method::put, pattern, std::move(function), options);
  }
  /// Adds a route for PATCH.
  Table& patch(std::string_view pattern, handler function, route_options options = {}) {
    return route(method::patch, pattern, std::move(function), options);
  }
  /// Adds a route for DELETE.
  // NOLINTNEXTLINE(readability-identifier-naming): a keyword otherwise
  Table& delete_(std::string_view pattern, handler function, route_options options = {}) {
    return route(method::delete_, pattern, std::move(function), options);
  }
  /// Adds a route for any method that has no route of its own with this pattern: HEAD, OPTIONS,
  /// CONNECT and methods that gyre does not know (method::other) as well.
  Table& any(std::string_view pattern, handler function, route_options options = {}) {
    return route(method_set::all(), pattern, std::move(function), options);
  }
  Table& route(method method, std::string_view pattern, handler function,
               route_options options = {}) {
    return route(method_set{method}, pattern, std::move(function), options);
  }
  /// Adds a route for several methods.
  Table& route(method_set methods, std::string_view pattern, handler function,
               route_options options = {}) {
    return static_cast<Table&>(*this).add_route(methods, pattern, std::move(function), options);
  }

 private:
  friend Table;
  route_verbs() = default;
};

}  // namespace gyre::http
