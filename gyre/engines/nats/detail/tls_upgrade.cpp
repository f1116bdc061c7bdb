// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/tls_upgrade.hpp>

#include <gyre/engines/nats/detail/login.hpp>
#include <gyre/engines/nats/detail/parser.hpp>
#include <gyre/engines/nats/error.hpp>
#include <gyre/tls/transport.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace gyre::nats::detail {

tls_upgrade::tls_upgrade(std::unique_ptr<net::layer> encryption) noexcept
    : encryption_(std::move(encryption)) {
  is_established_ = false;
}

duration tls_upgrade::handshake_timeout() const noexcept {
  return encryption_->handshake_timeout();
}
std::error_code tls_upgrade::timeout_error() const noexcept { return encryption_->timeout_error(); }
std::size_t tls_upgrade::held_by_handshake() const noexcept {
  return info_.size() + encryption_->held_by_handshake();
}

template <class Step>
tls_upgrade::status tls_upgrade::pass(Step step) {
  encryption_->send_to(output());
  encryption_->feed(unread());
  const status outcome = step(*encryption_);
  unread_ = encryption_->unread();
  failure_ = encryption_->why();
  has_peer_ended_ = encryption_->has_ended();
  return outcome;
}

tls_upgrade::status tls_upgrade::handshake() {
  if (info_.empty()) {
    const status outcome = read_info();
    if (outcome != status::done) return outcome;
  }
  const status outcome = pass([](net::layer& encryption) { return encryption.handshake(); });
  if (outcome == status::done) is_established_ = true;
  return outcome;
}

tls_upgrade::status tls_upgrade::read_info() {
  const std::string_view text(reinterpret_cast<const char*>(unread().data()), unread().size());
  const std::size_t end = text.find('\n', scanned_bytes_);
  scanned_bytes_ = text.size();
  if (end == std::string_view::npos) {
    if (text.size() > parser::max_info_size) return fail(make_error_code(errc::bad_message));
    return status::wants_input;
  }
  const std::string_view line = text.substr(0, end + 1);
  parser lines(0);
  const auto operation = lines.parse(line);
  const bool is_info = operation && *operation && (*operation)->kind == operation_kind::info;
  const std::optional<info_message> info = is_info ? parse_info((*operation)->text) : std::nullopt;
  if (!info) return fail(make_error_code(errc::bad_message));
  if (!info->tls_required && !info->tls_available) {
    return fail(make_error_code(errc::tls_not_available));
  }
  info_ = line;
  consume(line.size());
  return status::done;
}

tls_upgrade::status tls_upgrade::read(std::span<std::byte> buffer, std::size_t& count) {
  const auto line = std::as_bytes(std::span(info_)).subspan(info_given_);
  if (!line.empty()) {
    count = std::min(buffer.size(), line.size());
    std::ranges::copy(line.first(count), buffer.begin());
    info_given_ += count;
    return status::done;
  }
  return pass([&](net::layer& encryption) { return encryption.read(buffer, count); });
}

tls_upgrade::status tls_upgrade::peek() {
  if (info_given_ < info_.size()) return status::done;
  return pass([](net::layer& encryption) { return encryption.peek(); });
}

tls_upgrade::status tls_upgrade::write(std::span<const std::byte> bytes) {
  return pass([&](net::layer& encryption) { return encryption.write(bytes); });
}

void tls_upgrade::end() {
  layer::end();
  static_cast<void>(pass([](net::layer& encryption) {
    encryption.end();
    return status::done;
  }));
}

tls_transport::tls_transport(const tls::tls_context& context, bool is_first)
    : encryption_(tls::client_transport(context)), is_first_(is_first) {}

std::unique_ptr<net::layer> tls_transport::make_layer(std::string_view host) const {
  auto encryption = encryption_->make_layer(name_.empty() ? host : std::string_view(name_));
  if (is_first_) return encryption;
  return std::make_unique<tls_upgrade>(std::move(encryption));
}

}  // namespace gyre::nats::detail
