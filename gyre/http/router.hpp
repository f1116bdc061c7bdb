// SPDX-License-Identifier: Apache-2.0
// basic_router: finds the handler for the method and path of a request.
//
//     gyre::http::basic_router<handler> routes;
//     routes.add(method::get, "/users/{id}", show_user);
//     routes.add(method::get, "/files/{path...}", send_file);
//     auto match = routes.find(method::get, "/users/7");
//     if (match) (*match.handler)(match.parameters.raw("id"));
#pragma once

#include <gyre/http/detail/route_tree.hpp>
#include <gyre/http/method.hpp>
#include <gyre/http/route_parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::http {

/// The result of a lookup in a basic_router.
enum class route_outcome : std::uint8_t {
  found,
  options,      ///< an OPTIONS request without a handler: respond with the header Allow
  not_allowed,  ///< 405: the path has handlers, but not for the method; respond with Allow
  not_found,    ///< 404
};

/// The handler for a request, and the parameters of its pattern.
///
/// Lifetime: the router and the request's path must outlive it.
template <class Handler>
struct route_match {
  route_outcome outcome = route_outcome::not_found;
  const Handler* handler = nullptr;  ///< null unless the outcome is found
  route_parameters parameters = {};
  /// The methods of the path, including HEAD and OPTIONS; empty unless the outcome is not_allowed
  /// or options.
  method_set allowed = {};

  explicit operator bool() const noexcept { return handler != nullptr; }
};

/// A table of patterns and handlers. A pattern is a path whose segments, the parts between '/', are
///
/// - `text`, a literal: matches a segment that decodes to it
/// - `{name}`: matches one segment that is not empty
/// - `{name...}`, only at the end: matches the rest of the path, which may be empty
///
/// The most specific pattern wins, compared from left to right: a literal before {name} before
/// {name...}. If it has no handler for the method, a less specific pattern may have one. A handler
/// for GET also handles HEAD, unless HEAD has its own. A handler for any method handles those that
/// have none at the same pattern.
///
/// Paths are split before they are decoded, so an encoded '/' never splits. A path with a segment
/// that is malformed or decodes to "." or ".." matches nothing: the outcome is not_found. An empty
/// segment matches only an empty segment: "/a/" and "/a" are different. Paths are case-sensitive.
///
/// Thread-safety: find() may be called on several threads while no thread calls add().
/// Errors: add() throws std::invalid_argument, whose message contains the pattern, and changes
/// nothing, if the pattern
/// - does not begin with '/',
/// - has a malformed parameter ("{}", "{a}b", "{a...}/b"),
/// - has two parameters with the same name,
/// - has more than route_parameters::max_count parameters or 64 segments,
/// - exists already for the method, or twice for any method,
/// - or names a parameter differently from an earlier pattern at the same position.
/// Complexity: find() allocates nothing. It is linear in the size of the path for any input,
/// because it compares the path with each pattern at most once, and usually with one.
template <class Handler>
class basic_router {
 public:
  /// Adds a handler for one method.
  void add(method request_method, std::string_view pattern, Handler handler) {
    add_for({request_method}, pattern, std::move(handler));
  }
  /// Adds a handler for any method, including unknown ones, that has no handler of its own at this
  /// pattern.
  void add(std::string_view pattern, Handler handler) {
    add_for(method_set::all(), pattern, std::move(handler));
  }
  /// Adds a handler for several methods.
  void add_for(method_set methods, std::string_view pattern, Handler handler) {
    handlers_.push_back(std::move(handler));
    try {
      tree_.add(methods, pattern, static_cast<std::uint32_t>(handlers_.size() - 1));
    } catch (...) {
      handlers_.pop_back();
      throw;
    }
  }

  /// Finds the handler for an encoded path without query, as request_target::path() returns it.
  [[nodiscard]] route_match<Handler> find(method request_method,
                                          std::string_view path) const noexcept {
    route_match<Handler> match;
    find(request_method, path, match);
    return match;
  }
  /// Finds a handler and overwrites `match` with the result.
  void find(method request_method, std::string_view path,
            route_match<Handler>& match) const noexcept {
    match.parameters.clear();
    match.handler = nullptr;
    match.allowed = {};
    match.outcome = route_outcome::not_found;
    const detail::route_tree::result result = tree_.find(request_method, path, match.parameters);
    if (result.handler != detail::route_tree::none) {
      match.outcome = route_outcome::found;
      match.handler = &handlers_[result.handler];
    } else if (!result.allowed.empty()) {
      match.allowed = result.allowed;
      match.outcome =
          request_method == method::options ? route_outcome::options : route_outcome::not_allowed;
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return handlers_.size(); }
  [[nodiscard]] bool empty() const noexcept { return handlers_.empty(); }

 private:
  detail::route_tree tree_;
  std::vector<Handler> handlers_;
};

}  // namespace gyre::http
