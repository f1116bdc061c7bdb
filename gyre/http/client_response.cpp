// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/client_response.hpp>

#include <gyre/http/detail/client_exchange.hpp>

#include <utility>

namespace gyre::http {

client_response::client_response(detail::exchange_pointer exchange) noexcept
    : exchange_(std::move(exchange)) {}
client_response::client_response(client_response&& other) noexcept = default;
client_response& client_response::operator=(client_response&& other) noexcept = default;
client_response::~client_response() = default;

status client_response::status() const noexcept {
  return static_cast<http::status>(exchange_->reader().head().status);
}
bool client_response::is_success() const noexcept {
  return exchange_->reader().head().status / 100 == 2;
}
std::string_view client_response::reason() const noexcept {
  return exchange_->reader().head().reason;
}
unsigned client_response::minor_version() const noexcept {
  return exchange_->reader().head().framing.minor_version;
}
field_list client_response::fields() const noexcept { return exchange_->reader().fields(); }
const url& client_response::url() const noexcept { return exchange_->url(); }
std::string_view client_response::body() const noexcept { return exchange_->body(); }
std::string client_response::take_body() noexcept { return std::exchange(exchange_->body(), {}); }
std::optional<std::uint64_t> client_response::content_length() const noexcept {
  return exchange_->reader().content_length();
}
task<std::optional<std::span<const std::byte>>> client_response::next_chunk() {
  return exchange_->next_chunk();
}
task<> client_response::read_body() { return exchange_->read_body(); }
task<> client_response::stop() { return exchange_->stop(); }
bool client_response::is_request_complete() const noexcept {
  return exchange_->is_request_complete();
}
field_list client_response::trailers() const noexcept { return exchange_->reader().trailers(); }

}  // namespace gyre::http
