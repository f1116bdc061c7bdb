// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/http_exchange.hpp>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::testing {

bool http_exchange::has_response() {
  world_->settle();
  return response_.has_value() || (request_.valid() && request_.is_done());
}

http::client_response& http_exchange::response() {
  if (response_) return *response_;
  if (!request_.valid()) {
    throw std::logic_error("http_exchange: the client has left, or the request has failed");
  }
  auto request = std::exchange(request_, {});
  return response_.emplace(world_->run(request.join()));
}

std::optional<std::string> http_exchange::next_chunk() {
  const auto piece = world_->run(response().next_chunk());
  if (!piece) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(piece->data()), piece->size());
}

std::string http_exchange::read_body() {
  std::string body;
  while (const auto piece = next_chunk()) body += *piece;
  return body;
}

std::optional<http::server_sent_event> http_exchange::next_event() {
  for (;;) {
    const auto is_complete = events_.next(unread_events_);
    if (!is_complete) throw std::system_error(is_complete.error(), "http_exchange: next_event");
    if (*is_complete) return events_.event();
    const auto piece = next_chunk();
    if (!piece) return std::nullopt;
    unread_events_.append(std::as_bytes(std::span(*piece)));
  }
}

void http_exchange::leave() {
  response_.reset();
  request_ = {};
  world_->settle();
}

}  // namespace gyre::testing
