// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/rate_limit.hpp>

#include <gyre/exec/event_loop.hpp>
#include <gyre/http/detail/retry_later.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>

namespace gyre::http {

rate_limit::rate_limit(keyed_rate_limiter_options options, key_function key)
    : limiter_(std::make_shared<keyed_rate_limiter>(options)),
      key_(std::make_shared<const key_function>(std::move(key))) {
  if (!*key_) throw std::invalid_argument("http::rate_limit: needs a function for the key");
}

task<response> rate_limit::operator()(request& request, next_handler next) const {
  const std::optional<std::string> key = (*key_)(request);
  if (!key) return next(request);
  const auto decision = limiter_->try_acquire(*key, request.loop().now());
  if (decision.is_allowed) return next(request);
  return detail::retry_later(status::too_many_requests, decision.retry_after);
}

// Each key begins with its kind, so that no value of a field equals an address.
std::optional<std::string> rate_limit::client_network(const request& request) {
  const auto address = request.client_address();
  if (!address) return std::nullopt;
  constexpr std::size_t max_bytes = 8;  // an IPv4 address, or the network part of an IPv6 address
  const auto bytes = address->bytes();
  const auto network = bytes.first(std::min(bytes.size(), max_bytes));
  std::string key(1, 'a');
  key.append(reinterpret_cast<const char*>(network.data()), network.size());
  return key;
}

rate_limit::key_function rate_limit::field(std::string name) {
  return [name = std::move(name)](const request& request) -> std::optional<std::string> {
    const auto value = request.field(name);
    if (!value) return client_network(request);
    std::string key(1, 'f');
    key.append(*value);
    return key;
  };
}

}  // namespace gyre::http
