// SPDX-License-Identifier: Apache-2.0
// rate_limit: a middleware that refuses the requests of clients that send too many.
//
//     const gyre::http::rate_limit limit({.tokens = 50, .per = 1s, .burst = 100});
//     server.use(limit);
#pragma once

#include <gyre/http/handler.hpp>
#include <gyre/http/request.hpp>
#include <gyre/http/response.hpp>
#include <gyre/sync/keyed_rate_limiter.hpp>
#include <gyre/task/task.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace gyre::http {

/// Gives each client a token bucket, and responds to a request for which there is no token by 429
/// with Retry-After, in whole seconds. The key tells the clients apart:
///
/// | key | clients are told apart by |
/// |---|---|
/// | client_network(), the default | the IPv4 address, or the IPv6 network of 64 bits, of request::client_address() |
/// | field(name) | the value of a field, such as an API key; without the field, by client_network() |
/// | a function | the text that it returns; a request for which it returns nothing is not limited |
///
/// Peers on Unix sockets are not limited by client_network(). Behind a proxy, set
/// server_options::forwarding: otherwise all clients share the bucket of the proxy. A client may
/// send any field, so limit by a field that is verified before (by a middleware that was added
/// earlier), or also by client_network().
///
/// Copies share the buckets, so several servers may use one limit. Memory is bounded: see
/// keyed_rate_limiter.
///
/// Thread-safety: any thread. The loops of a server call it, and the function, at the same time.
/// Lifetime: as a shared pointer.
/// Errors: the constructor throws those of keyed_rate_limiter, and std::invalid_argument for an
/// empty function. An exception of the function is one of the handler.
/// Complexity: some 100 ns and no coroutine frame for an allowed request; see keyed_rate_limiter.
class rate_limit {
 public:
  using key_function = std::function<std::optional<std::string>(const request& request)>;

  explicit rate_limit(keyed_rate_limiter_options options, key_function key = client_network);

  /// A middleware.
  task<response> operator()(request& request, next_handler next) const;

  /// The keys of the table above.
  [[nodiscard]] static std::optional<std::string> client_network(const request& request);
  /// A key from a field of the request, such as "X-Api-Key".
  [[nodiscard]] static key_function field(std::string name);

  [[nodiscard]] keyed_rate_limiter_metrics metrics() const { return limiter_->metrics(); }

 private:
  std::shared_ptr<keyed_rate_limiter> limiter_;
  std::shared_ptr<const key_function> key_;
};

}  // namespace gyre::http
