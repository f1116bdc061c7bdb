// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/client_response.hpp>

#include <gyre/http/detail/client_exchange.hpp>

#include <utility>

namespace gyre::http {

void detail::exchange_deleter::operator()(client_exchange* exchange) const noexcept {
  client_exchange::release(exchange);
}

client_response::client_response(detail::exchange_pointer exchange) noexcept
    : exchange_(std::move(exchange)) {}
client_response::client_response(client_response&& other) noexcept = default;
client_response& client_response::operator=(client_response&& other) noexcept = default;
client_response::~client_response() = default;

status client_response::status() const noexcept {
  return static_cast<http::status>(exchange_->response().head().status);
}
bool client_response::is_success() const noexcept {
  return exchange_->response().head().status / 100 == 2;
}
std::string_view client_response::reason() const noexcept {
  return exchange_->response().head().reason;
}
unsigned client_response::major_version() const noexcept {
  return exchange_->response().is_http2() ? 2 : 1;
}
unsigned client_response::minor_version() const noexcept {
  return exchange_->response().head().framing.minor_version;
}
field_list client_response::fields() const noexcept { return exchange_->response().fields(); }
const url& client_response::url() const noexcept { return exchange_->url(); }
std::string_view client_response::body() const noexcept { return exchange_->body(); }
std::string client_response::take_body() noexcept { return std::exchange(exchange_->body(), {}); }
std::optional<std::uint64_t> client_response::content_length() const noexcept {
  return exchange_->response().content_length();
}
task<std::optional<std::span<const std::byte>>> client_response::next_chunk() {
  return exchange_->next_chunk();
}
task<> client_response::read_body() { return exchange_->read_body(); }
task<> client_response::stop() { return exchange_->stop(); }
bool client_response::is_request_complete() const noexcept {
  return exchange_->is_request_complete();
}
field_list client_response::trailers() const noexcept { return exchange_->response().trailers(); }

}  // namespace gyre::http
