// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/tls_negotiation.hpp>

#include <gyre/engines/postgres/detail/message_writer.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/tls/channel_binding.hpp>
#include <gyre/tls/transport.hpp>

#include <utility>

namespace gyre::postgres::detail {
namespace {

class negotiating_transport final : public net::transport {
 public:
  negotiating_transport(std::shared_ptr<const net::transport> encryption, tls_mode mode)
      : secure_(std::move(encryption)), mode_(mode) {}

  std::unique_ptr<net::layer> make_layer(std::string_view host) const override {
    return std::make_unique<tls_negotiation>(secure_->make_layer(host), mode_);
  }

 private:
  const std::shared_ptr<const net::transport> secure_;
  const tls_mode mode_;
};

}  // namespace

tls_negotiation::tls_negotiation(std::unique_ptr<net::layer> encryption, tls_mode mode)
    : secure_(std::move(encryption)),
      mode_(mode),
      phase_(mode == tls_mode::direct ? phase::secure : phase::asking) {
  is_established_ = false;
}

// Feeds the bytes to TLS, runs a step of it, and copies its state to this layer.
template <class Step>
net::layer::status tls_negotiation::run(Step step) {
  if (why().code) return status::failed;
  if (output_ != nullptr) secure_->send_to(*output_);
  secure_->feed(unread_);
  const status outcome = step(*secure_);
  unread_ = secure_->unread();
  is_established_ = secure_->is_established();
  has_peer_ended_ = secure_->has_ended();
  end_announced_ = secure_->has_announced_end();
  if (outcome == status::failed) failure_ = secure_->why();
  return outcome;
}

net::layer::status tls_negotiation::negotiate() {
  if (why().code) return status::failed;
  if (phase_ == phase::asking) {
    message_writer(output()).ssl_request();
    phase_ = phase::asked;
  }
  if (unread().empty()) return status::wants_input;
  const char reply = std::to_integer<char>(unread().front());
  consume(1);
  if (reply == 'N') {
    return fail(make_error_code(errc::tls_refused), "the server offers no TLS");
  }
  if (reply != 'S') {
    return fail(make_error_code(errc::bad_message), "the server did not say whether it offers TLS");
  }
  if (!unread().empty()) {
    return fail(make_error_code(errc::bad_message),
                "bytes that are not encrypted came after the server had agreed to TLS");
  }
  phase_ = phase::secure;
  return status::done;
}

net::layer::status tls_negotiation::handshake() {
  if (phase_ != phase::secure) {
    const status outcome = negotiate();
    if (outcome != status::done) return outcome;
  }
  const status outcome = run([](net::layer& encryption) { return encryption.handshake(); });
  return outcome == status::done ? check_application() : outcome;
}

// Without this check, bytes for PostgreSQL could go to a server of another protocol that has the
// same certificate.
net::layer::status tls_negotiation::check_application() {
  if (mode_ != tls_mode::direct) return status::done;
  const auto info = tls::info_of(*secure_);
  if (info && info->application_protocol == "postgresql") return status::done;
  return fail(make_error_code(errc::tls_refused),
              "direct TLS needs the application protocol \"postgresql\" (ALPN) at both ends");
}

net::layer::status tls_negotiation::read(std::span<std::byte> buffer, std::size_t& count) {
  count = 0;
  return run([&](net::layer& encryption) { return encryption.read(buffer, count); });
}

net::layer::status tls_negotiation::peek() {
  return run([](net::layer& encryption) { return encryption.peek(); });
}

net::layer::status tls_negotiation::write(std::span<const std::byte> bytes) {
  return run([bytes](net::layer& encryption) { return encryption.write(bytes); });
}

void tls_negotiation::end() {
  run([](net::layer& encryption) {
    encryption.end();
    return status::done;
  });
}

bool tls_negotiation::awaits_rest() const noexcept {
  return phase_ == phase::secure && secure_->awaits_rest();
}

std::error_code tls_negotiation::end_of_bytes() const noexcept {
  return phase_ == phase::secure ? secure_->end_of_bytes() : net::layer::end_of_bytes();
}

std::shared_ptr<const net::transport> make_transport(const connection_options& options,
                                                     std::string host) {
  if (options.encryption == tls_mode::off) return nullptr;
  return std::make_shared<negotiating_transport>(
      tls::client_transport(options.tls, std::move(host)), options.encryption);
}

std::vector<std::byte> channel_of(const net::layer* protocol) {
  const auto* const negotiation = dynamic_cast<const tls_negotiation*>(protocol);
  if (negotiation == nullptr) return {};
  return tls::server_end_point(negotiation->secure());
}

}  // namespace gyre::postgres::detail
