// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/layer.hpp>

#include <gyre/io/error.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/layer_limits.hpp>

#include <utility>

namespace gyre::net {

bool layer::is_kept() const noexcept {
  const std::less_equal<const std::byte*> comes_first;
  return !unread_.empty() && comes_first(kept_bytes_.data(), unread_.data()) &&
         comes_first(unread_.data() + unread_.size(), kept_bytes_.data() + kept_bytes_.size());
}

void layer::feed(std::span<const std::byte> bytes) {
  if (!is_kept()) {
    unread_ = bytes;
    return;
  }
  kept_bytes_.consume(kept_bytes_.size() - unread_.size());
  kept_bytes_.append(bytes);
  unread_ = kept_bytes_.bytes();
}

void layer::keep_unread() {
  if (is_kept()) return;
  if (has_ended() || why().code) unread_ = {};  // no operation will read these bytes
  io::buffer copy;
  copy.append(unread_);
  kept_bytes_ = std::move(copy);
  unread_ = kept_bytes_.bytes();
}

layer::status layer::take(std::span<std::byte> buffer, std::size_t& count) {
  const status outcome = read(buffer, count);
  return outcome == status::done && count == 0 ? status::wants_input : outcome;
}

layer::status layer::read_all(io::buffer& output) {
  for (;;) {
    std::size_t count = 0;
    const status outcome =
        take(output.prepare(detail::record_size).first(detail::record_size), count);
    output.commit(count);
    if (outcome != status::done) return outcome;
  }
}

layer::status layer::fail(std::error_code code, std::string text) {
  failure_ = {.code = code, .text = std::move(text)};
  return status::failed;
}

std::error_code layer::error() const noexcept {
  return why().code ? why().code : std::make_error_code(std::errc::protocol_error);
}

std::error_code layer::timeout_error() const noexcept { return io::errc::operation_timeout; }

bool layer::covers_host(std::string_view /*host*/) const { return true; }

std::error_code layer::end_of_bytes() const noexcept {
  if (has_ended()) return {};
  if (!is_established() || awaits_rest()) return io::errc::unexpected_end;
  return {};
}

void transport::handshake_failed(const endpoint& /*peer*/, std::error_code /*reason*/,
                                 const layer* /*failed*/) const {}

namespace detail {

std::unique_ptr<layer> make_layer(const transport& factory, std::string_view host) {
  std::unique_ptr<layer> result = factory.make_layer(host);
  if (result == nullptr) fail(std::errc::invalid_argument, "gyre::net: a transport made no layer");
  return result;
}

}  // namespace detail
}  // namespace gyre::net
