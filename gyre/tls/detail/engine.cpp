// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/detail/engine.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/net/address.hpp>
#include <gyre/tls/detail/callbacks.hpp>
#include <gyre/tls/detail/plain_http.hpp>
#include <gyre/tls/error.hpp>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace gyre::tls::detail {
namespace {

// Limits the bytes that a peer may send within the handshake, before it has proved anything.
constexpr std::size_t max_handshake_bytes = std::size_t{256} << 10;
// OpenSSL's memory for one connection until its handshake is done, without the buffer for a
// client's first message, which OpenSSL allocates as soon as it knows the length.
constexpr std::size_t handshake_cost = std::size_t{44} << 10;
constexpr std::size_t max_hello_size = std::size_t{128} << 10;

// Encrypting this many bytes costs about as much as one step of OpenSSL's handshake.
constexpr std::size_t bytes_per_step = std::size_t{4} << 10;

constexpr std::size_t record_header_size = 5;
constexpr std::byte handshake_record{22};
constexpr std::byte client_hello{1};

std::shared_ptr<const loaded_context> current_of(const tls_context& context) {
  if (!context) {
    throw std::system_error(errc::bad_configuration, "gyre::tls: the context is empty");
  }
  return context.state()->current();
}

// Returns the host's address, or nothing if the host is a name. Drops the zone of an IPv6 address:
// the zone says how this machine reaches the address (RFC 4007), is in no certificate, and need not
// exist on this machine.
std::optional<net::ip_address> address_of(std::string_view host) {
  const std::size_t zone = host.find('%');
  const auto address = net::ip_address::parse(host.substr(0, zone));
  if (!address || (zone != std::string_view::npos && address->is_v4())) return std::nullopt;
  return *address;
}

// Whether the session may be offered to the host: a session for another name would be resumed
// without a check of the certificate.
bool is_of_host(const SSL_SESSION* session, const std::string& host) {
  const char* const name = SSL_SESSION_get0_hostname(session);
  return name == nullptr || gyre::detail::to_lower(name) == gyre::detail::to_lower(host);
}

// Sets the server's name and, with `must_verify`, the name or address that its certificate must
// have.
void expect_host(SSL* ssl, const std::string& host, bool must_verify) {
  // OpenSSL would accept any subdomain if the host began with a dot.
  if (host.starts_with('.')) {
    throw std::system_error(errc::bad_configuration, "gyre::tls: host " + host);
  }
  const std::optional<net::ip_address> address = address_of(host);
  bool is_set = true;
  if (address) {
    const std::span<const std::uint8_t> bytes = address->bytes();
    if (must_verify) {
      is_set = X509_VERIFY_PARAM_set1_ip(SSL_get0_param(ssl), bytes.data(), bytes.size()) == 1;
    }
  } else {
    if (!host.empty()) is_set = SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
    if (must_verify && is_set) {
      // RFC 9525: a common name does not identify a host.
      SSL_set_hostflags(ssl,
                        X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
      is_set = SSL_set1_host(ssl, host.c_str()) == 1;
    }
  }
  if (!is_set) throw_openssl_error(errc::bad_configuration, "gyre::tls: host " + host);
}

}  // namespace

engine::engine(const tls_context& context, std::string host, const session& previous_session)
    : context_data_(current_of(context)), host_(std::move(host)) {
  is_established_ = false;
  if (host_.ends_with('.')) host_.pop_back();
  if (context_data_->is_server) return;  // begin_to_serve() creates the SSL object
  if (context_data_->verifies_peer && host_.empty()) {
    throw std::system_error(errc::bad_configuration,
                            "gyre::tls: to verify the certificate, the host's name is needed");
  }
  make_ssl();
  SSL* const ssl = ssl_.get();
  expect_host(ssl, host_, context_data_->verifies_peer);
  const auto& protocols = context_data_->application_protocols;
  // SSL_set_alpn_protos() returns 0 on success.
  if (!protocols.empty() &&
      SSL_set_alpn_protos(ssl, protocols.data(), static_cast<unsigned>(protocols.size())) != 0) {
    throw std::bad_alloc();
  }
  if (context_data_->requests_ocsp_staple) SSL_set_tlsext_status_type(ssl, TLSEXT_STATUSTYPE_ocsp);
  // OpenSSL does not verify the certificate of a resumed session again, so that a session with an
  // expired certificate, or for another host, must not be offered.
  auto* const session = static_cast<SSL_SESSION*>(previous_session.native());
  if (previous_session.may_be_offered(context_data_) &&
      !(context_data_->verifies_peer &&
        (has_expired_certificate(session) || !is_of_host(session, host_)))) {
    if (const ssl_session_ptr copy = copy_of(session)) SSL_set_session(ssl, copy.get());
  }
  SSL_set_connect_state(ssl);
}

void engine::make_ssl() {
  ERR_clear_error();
  ssl_ptr new_ssl(SSL_new(context_data_->entries.front().context.get()));
  bio_ptr bio(callbacks::method() == nullptr ? nullptr : BIO_new(callbacks::method()));
  if (new_ssl == nullptr || bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio.get(), this);
  BIO_set_init(bio.get(), 1);
  SSL_set_info_callback(new_ssl.get(), &callbacks::note_step);
  BIO* const shared_bio = bio.release();
  SSL_set_bio(new_ssl.get(), shared_bio, shared_bio);
  ssl_ = std::move(new_ssl);
}

// Collects the client's first bytes before it creates the SSL object, so that a peer that sends
// nothing costs no memory of OpenSSL. Returns false while the bytes neither reveal the length of
// the first message nor that they are not TLS.
bool engine::begin_to_serve() {
  const std::size_t count = std::min(first_bytes_.size() - first_byte_count_, unread_.size());
  std::ranges::copy(unread_.first(count), first_bytes_.begin() + first_byte_count_);
  first_byte_count_ = static_cast<std::uint8_t>(first_byte_count_ + count);
  consume(count);
  const bool may_be_tls = first_bytes_[0] == handshake_record;
  if (first_byte_count_ < (may_be_tls ? first_bytes_.size() : record_header_size)) return false;
  make_ssl();
  unread_first_bytes_ = std::span(first_bytes_).first(first_byte_count_);
  SSL_set_accept_state(ssl_.get());
  return true;
}

// Returns the bytes that OpenSSL holds for the handshake. Counts max_hello_size if the first record
// does not contain the length of the first message.
std::size_t engine::held_by_handshake() const noexcept {
  if (ssl_ == nullptr || is_established_) return 0;
  if (!context_data_->is_server || first_bytes_[0] != handshake_record) return handshake_cost;
  const auto number = [this](std::size_t index) {
    return std::to_integer<std::size_t>(first_bytes_[index]);
  };
  const bool is_plain = (number(3) << 8 | number(4)) >= 4 && first_bytes_[5] == client_hello;
  const std::size_t length = number(6) << 16 | number(7) << 8 | number(8);
  return handshake_cost + (is_plain ? std::min(length, max_hello_size) : max_hello_size);
}

engine::status engine::fail_with(std::error_code code, std::string text) {
  ERR_clear_error();
  return fail(code, std::move(text));
}

engine::status engine::result_of(int call_result) {
  switch (SSL_get_error(ssl_.get(), call_result)) {
    case SSL_ERROR_NONE: return status::done;
    case SSL_ERROR_WANT_READ: wants_input_ = unread_.empty(); return status::wants_input;
    case SSL_ERROR_ZERO_RETURN:
      // No other record may come within a message (RFC 8446, 5.1), but OpenSSL accepts an alert
      // there.
      if (is_within_message()) return fail_with(errc::bad_record);
      has_peer_ended_ = true;
      return status::ended;
    default: break;
  }
  if (failure_.code) return status::failed;
  if (is_name_unknown_) return fail_with(errc::unknown_server_name);
  failure_ = take_failure(ssl_.get(), is_established_, host_, refused_names_);
  if (too_large_key_ > 0 && failure_.code == errc::certificate_refused) {
    failure_.text = "a key of " + std::to_string(too_large_key_) +
                    " bits is larger than max_rsa_bits, " +
                    std::to_string(context_data_->max_rsa_bits);
  }
  if (failure_.code == errc::not_tls || failure_.code == errc::plain_http) refuse_other_protocol();
  return status::failed;
}

bool engine::wants_input() noexcept {
  if (!unread().empty()) wants_input_ = false;
  return wants_input_;
}

// Appends a reply for a peer that does not speak TLS. OpenSSL sends nothing for most such bytes,
// and the peer would wait for a reply without learning why none comes.
void engine::refuse_other_protocol() {
  if (context_data_->is_server && !is_established_ &&
      is_http_request(std::span(first_bytes_).first(first_byte_count_))) {
    failure_.code = errc::plain_http;
    output().clear();  // an alert before the response would corrupt the response
    output().append(plain_http_response);
    return;
  }
  if (has_sent_alert_) return;
  constexpr std::array<unsigned char, 7> unexpected_message = {21, 3, 1, 0, 2, 2, 10};
  output().append(std::as_bytes(std::span(unexpected_message)));
}

engine::status engine::handshake() {
  if (failure_.code) return status::failed;
  wants_input_ = false;
  if (ssl_ == nullptr && !begin_to_serve()) return status::wants_input;
  ERR_clear_error();
  const status outcome = result_of(SSL_do_handshake(ssl_.get()));
  if (outcome == status::done) {
    is_established_ = true;
    requested_name_ = {};
    count_pending_tickets();
    // Keeps the resumed session: in TLS 1.2 it may be resumed again, and the server need not send
    // another session.
    SSL* const ssl = ssl_.get();
    if (!context_data_->is_server && !session_ && SSL_session_reused(ssl) == 1 &&
        SSL_version(ssl) < TLS1_3_VERSION) {
      callbacks::keep_session(ssl, SSL_get_session(ssl));
    }
  } else if (outcome == status::ended) {
    return fail_with(errc::handshake_ended);
  } else if (handshake_bytes_ > max_handshake_bytes) {
    return fail_with(errc::handshake_too_large);
  }
  return outcome;
}

// Sets the number of tickets to write: two, as many as OpenSSL sends by default, or one if the
// client has resumed with a ticket.
void engine::count_pending_tickets() noexcept {
  SSL* const ssl = ssl_.get();
  if (context_data_->shared_ticket_keys == nullptr || !may_resume_ ||
      SSL_version(ssl) < TLS1_3_VERSION)
    return;
  pending_tickets_ = SSL_session_reused(ssl) == 1 ? 1 : 2;
}

// Returns the result of SSL_do_handshake(), which writes the tickets.
int engine::make_tickets() noexcept {
  SSL* const ssl = ssl_.get();
  ERR_clear_error();
  for (; pending_tickets_ > 0; --pending_tickets_) SSL_new_session_ticket(ssl);
  const int result = SSL_do_handshake(ssl);
  // Frees the read buffer, which OpenSSL has allocated while it wrote the tickets.
  if (result == 1 && !awaits_rest()) SSL_free_buffers(ssl);
  return result;
}

engine::status engine::write_tickets() {
  if (failure_.code) return status::failed;
  if (pending_tickets_ == 0 || is_within_message()) return status::done;
  const status outcome = result_of(make_tickets());
  return outcome == status::done || outcome == status::failed ? outcome
                                                              : fail_with(errc::bad_record);
}

// Reduces steps_ in proportion to the data: a peer that transfers more may change keys more often.
void engine::count_data(std::size_t bytes) noexcept {
  credit_ += bytes;
  steps_ -= std::min(steps_, credit_ / bytes_per_step);
  credit_ %= bytes_per_step;
}

engine::status engine::read(std::span<std::byte> buffer, std::size_t& count) {
  count = 0;
  if (failure_.code) return status::failed;
  // Without input OpenSSL would only allocate a buffer and free it.
  if (wants_input()) return status::wants_input;
  while (count < buffer.size()) {
    ERR_clear_error();
    std::size_t part = 0;
    const int result = SSL_read_ex(ssl_.get(), buffer.data() + count, buffer.size() - count, &part);
    if (result != 1) {
      const status outcome = result_of(result);
      return count > 0 ? status::done : outcome;  // the next call returns `outcome`
    }
    count += part;
    count_data(part);
  }
  return status::done;
}

engine::status engine::peek() {
  if (failure_.code) return status::failed;
  if (wants_input()) return status::wants_input;
  ERR_clear_error();
  std::byte first{};
  std::size_t count = 0;
  return result_of(SSL_peek_ex(ssl_.get(), &first, 1, &count));
}

bool engine::awaits_rest() const noexcept {
  SSL* const ssl = ssl_.get();
  return SSL_has_pending(ssl) == 1 || is_within_message() ||
         SSL_rstate_string(ssl) == std::string_view("RB");  // the header of a record was read
}

engine::status engine::write(std::span<const std::byte> bytes) {
  if (!bytes.empty() && write_tickets() == status::failed) return status::failed;
  if (failure_.code) return status::failed;
  while (!bytes.empty()) {
    ERR_clear_error();
    std::size_t part = 0;
    const int result = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &part);
    if (result != 1) {
      const status outcome = result_of(result);
      return outcome == status::failed ? outcome : fail_with(errc::bad_record);
    }
    bytes = bytes.subspan(part);
    count_data(part);
  }
  return status::done;
}

void engine::end() noexcept {
  if (!is_established_ || has_announced_end() || failure_.code) return;
  net::layer::end();
  if (pending_tickets_ > 0 && !is_within_message()) make_tickets();
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

std::error_code engine::end_of_bytes() const noexcept {
  if (has_ended()) return {};
  return is_established_ ? errc::truncated : errc::handshake_ended;
}

void engine::request_protocols(std::span<const std::string> protocols) {
  if (!context_data_->application_protocols.empty() || protocols.empty()) return;
  std::string names;
  for (const std::string& protocol : protocols) {
    names.append(1, static_cast<char>(protocol.size())).append(protocol);
  }
  // SSL_set_alpn_protos() returns 0 on success.
  if (SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(names.data()),
                          static_cast<unsigned>(names.size())) != 0) {
    throw std::bad_alloc();
  }
}

std::string_view engine::application_protocol() const noexcept {
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  if (ssl_ != nullptr) SSL_get0_alpn_selected(ssl_.get(), &protocol, &size);
  return {reinterpret_cast<const char*>(protocol), size};
}

bool engine::covers_host(std::string_view host) const {
  const char* const name = SSL_get_servername(ssl_.get(), TLSEXT_NAMETYPE_host_name);
  return name == nullptr || name == host ||
         context_data_->entry_for(name) == context_data_->entry_for(host);
}

}  // namespace gyre::tls::detail
