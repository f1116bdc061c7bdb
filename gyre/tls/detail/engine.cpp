// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/detail/engine.hpp>

#include <gyre/net/address.hpp>
#include <gyre/tls/error.hpp>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace gyre::tls::detail {
namespace {

// All that a peer may send before it has proved anything.
constexpr std::size_t most_handshake_bytes = std::size_t{256} << 10;
// Steps of OpenSSL's handshake behind its end, for messages such as KeyUpdate, and no data between
// them. Each key costs far more than its message, and thousands may be received at once.
constexpr std::size_t most_steps = 512;

// OpenSSL marks the session of a connection that fails as one that cannot be resumed, without a
// lock. Other connections, on other threads, have copies of their own. Null without memory.
ssl_session_ptr copy_of(const SSL_SESSION* shared) {
  return ssl_session_ptr(SSL_SESSION_dup(shared));
}

}  // namespace

/// Functions that OpenSSL calls.
struct callbacks {
  // --- The BIO ---

  static engine& engine_of(BIO* bio) noexcept { return *static_cast<engine*>(BIO_get_data(bio)); }

  static int read(BIO* bio, char* room, std::size_t size, std::size_t* count) {
    engine& self = engine_of(bio);
    BIO_clear_retry_flags(bio);
    *count = std::min(size, self.unread_.size());
    if (self.steps_ > most_steps) {
      self.failure_.code = errc::bad_record;
      *count = 0;
      return 0;
    }
    if (*count == 0) {
      BIO_set_retry_read(bio);
      return 0;
    }
    std::memcpy(room, self.unread_.data(), *count);
    self.unread_ = self.unread_.subspan(*count);
    if (!self.established_) self.handshake_bytes_ += *count;
    return 1;
  }
  static int write(BIO* bio, const char* bytes, std::size_t size, std::size_t* count) {
    engine& self = engine_of(bio);
    BIO_clear_retry_flags(bio);
    *count = 0;
    try {
      self.output_->append(std::string_view(bytes, size));
    } catch (const std::exception&) {
      self.failure_.code = std::make_error_code(std::errc::not_enough_memory);
      return 0;
    }
    *count = size;
    return 1;
  }
  static long control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }
  static BIO_METHOD* method() {
    static BIO_METHOD* const made = [] {
      BIO_METHOD* const fresh =
          BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gyre buffers");
      if (fresh != nullptr) {
        BIO_meth_set_read_ex(fresh, &read);
        BIO_meth_set_write_ex(fresh, &write);
        BIO_meth_set_ctrl(fresh, &control);
      }
      return fresh;
    }();
    return made;
  }

  static void note_step(const SSL* ssl, int where, int /*value*/) {
    engine& self = engine_of(ssl);
    if ((where & SSL_CB_LOOP) != 0 && self.established_) ++self.steps_;
  }

  // --- Servers ---

  // By the BIO: data of the SSL's own would cost two allocations.
  static engine& engine_of(const SSL* ssl) noexcept { return engine_of(SSL_get_rbio(ssl)); }

  // Called in each handshake, with a name or without, before a certificate is chosen; resumed
  // sessions choose none. To accept the name has a session of TLS 1.2 keep it: a resumed connection
  // gives that of its session.
  static int accept_name(SSL* ssl, int* /*alert*/, void* /*argument*/) {
    engine& self = engine_of(ssl);
    try {
      const char* const name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
      self.entry_ = self.loaded_->entry_for(name == nullptr ? "" : name);
      self.name_is_unknown_ = self.entry_ == nullptr;
    } catch (const std::bad_alloc&) {
      return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    return self.name_is_unknown_ ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_OK;
  }

  static int choose_certificate(SSL* ssl, void* /*argument*/) {
    const loaded_context::entry* const own = engine_of(ssl).entry_;
    if (own == nullptr) return 0;
    SSL_set_SSL_CTX(ssl, own->context.get());
    // In TLS 1.3 the name comes with each handshake, so its tickets need none.
    if (SSL_version(ssl) >= TLS1_3_VERSION &&
        SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) != nullptr) {
      SSL_SESSION_set1_hostname(SSL_get_session(ssl), nullptr);
    }
    return 1;
  }

  static int choose_application(SSL* ssl, const unsigned char** chosen, unsigned char* size,
                                const unsigned char* offered, unsigned int offered_size,
                                void* /*argument*/) {
    const auto& ours = engine_of(ssl).loaded_->application_protocols;
    if (ours.empty()) return SSL_TLSEXT_ERR_NOACK;
    unsigned char* selected = nullptr;
    const int outcome = SSL_select_next_proto(
        &selected, size, ours.data(), static_cast<unsigned>(ours.size()), offered, offered_size);
    if (outcome != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = selected;
    return SSL_TLSEXT_ERR_OK;
  }

  static int staple(SSL* ssl, void* /*argument*/) {
    const loaded_context& loaded = *engine_of(ssl).loaded_;
    const auto* const entry = loaded.entry_of(SSL_get_SSL_CTX(ssl));
    if (entry == nullptr || entry->ocsp_staple.empty()) return SSL_TLSEXT_ERR_NOACK;
    const auto& bytes = entry->ocsp_staple;
    void* const copy = OPENSSL_memdup(bytes.data(), bytes.size());
    if (copy == nullptr) return SSL_TLSEXT_ERR_NOACK;
    SSL_set_tlsext_status_ocsp_resp(ssl, copy, static_cast<long>(bytes.size()));
    return SSL_TLSEXT_ERR_OK;
  }

  // Fetched once: EVP_aes_256_cbc() is looked up by its name for each ticket.
  static const EVP_CIPHER* ticket_cipher() noexcept {
    static const EVP_CIPHER* const fetched = EVP_CIPHER_fetch(nullptr, "AES-256-CBC", nullptr);
    return fetched != nullptr ? fetched : EVP_aes_256_cbc();
  }

  // Returns -1 for an error, 0 for a full handshake, 2 for a ticket that is to be renewed.
  static int protect_ticket(SSL* ssl, unsigned char* name, unsigned char* iv,
                            EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac, int encrypts) {
    const loaded_context& loaded = *engine_of(ssl).loaded_;
    if (loaded.tickets == nullptr) return 0;
    try {
      const steady_time present = gyre::detail::monotonic_now();
      ticket_key key;
      int outcome = 1;
      if (encrypts != 0) {
        const auto newest = loaded.tickets->newest(present);
        if (!newest || RAND_bytes(iv, EVP_CIPHER_get_iv_length(ticket_cipher())) != 1) return -1;
        key = *newest;
        std::ranges::copy(key.name, name);
      } else {
        const auto found = loaded.tickets->find(std::span(name, key.name.size()), present);
        if (!found) return 0;
        key = found->key;
        // A client of TLS 1.3 uses a ticket once (RFC 8446, C.4), so it needs a new one each time.
        outcome = found->is_newest && SSL_version(ssl) < TLS1_3_VERSION ? 1 : 2;
      }
      char digest[] = "SHA256";
      const OSSL_PARAM parameters[] = {
          OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key.mac.data(), key.mac.size()),
          OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
          OSSL_PARAM_construct_end()};
      const bool ready = EVP_CipherInit_ex(cipher, ticket_cipher(), nullptr, key.cipher.data(), iv,
                                           encrypts != 0 ? 1 : 0) == 1 &&
                         EVP_MAC_CTX_set_params(mac, parameters) == 1;
      return ready ? outcome : -1;
    } catch (const std::exception&) {
      return -1;
    }
  }

  // A resumed session is not verified again, and in TLS 1.3 each one brings a ticket with a new
  // lifetime: a client could go on for ever after its certificate has expired.
  static SSL_TICKET_RETURN judge_ticket(SSL* /*ssl*/, SSL_SESSION* opened,
                                        const unsigned char* /*name*/, std::size_t /*size*/,
                                        SSL_TICKET_STATUS status, void* /*argument*/) {
    switch (status) {
      case SSL_TICKET_EMPTY:
      case SSL_TICKET_NO_DECRYPT: return SSL_TICKET_RETURN_IGNORE_RENEW;
      case SSL_TICKET_SUCCESS:
      case SSL_TICKET_SUCCESS_RENEW: break;
      default: return SSL_TICKET_RETURN_ABORT;
    }
    if (is_past_its_certificate(opened)) return SSL_TICKET_RETURN_IGNORE_RENEW;
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
  }

  // --- Certificates of peers ---

  static int verified(int is_good, X509_STORE_CTX* chain) {
    const int error = X509_STORE_CTX_get_error(chain);
    if (is_good == 1 ||
        (error != X509_V_ERR_HOSTNAME_MISMATCH && error != X509_V_ERR_IP_ADDRESS_MISMATCH)) {
      return is_good;
    }
    const auto* const ssl = static_cast<const SSL*>(
        X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
    try {
      engine_of(ssl).refused_names_ = dns_names_of(X509_STORE_CTX_get0_cert(chain));
    } catch (const std::bad_alloc&) {
      return is_good;  // the message will lack them
    }
    return is_good;
  }

  // --- Clients ---

  // Returns 0: `made` stays the connection's own.
  static int keep_session(SSL* ssl, SSL_SESSION* made) {
    engine& self = engine_of(ssl);
    try {
      if (ssl_session_ptr copy = copy_of(made)) {
        self.session_ = session(std::shared_ptr<SSL_SESSION>(std::move(copy)), self.loaded_);
      }
    } catch (const std::bad_alloc&) {
      return 0;
    }
    return 0;
  }
};

void set_server_callbacks(SSL_CTX* context, bool with_tickets) {
  SSL_CTX_set_tlsext_servername_callback(context, &callbacks::accept_name);
  SSL_CTX_set_cert_cb(context, &callbacks::choose_certificate, nullptr);
  SSL_CTX_set_alpn_select_cb(context, &callbacks::choose_application, nullptr);
  SSL_CTX_set_tlsext_status_cb(context, &callbacks::staple);
  if (!with_tickets) return;
  SSL_CTX_set_tlsext_ticket_key_evp_cb(context, &callbacks::protect_ticket);
  SSL_CTX_set_session_ticket_cb(context, nullptr, &callbacks::judge_ticket, nullptr);
}

void verify_peers(SSL_CTX* context, int mode) {
  SSL_CTX_set_verify(context, mode, &callbacks::verified);
}

void set_client_callbacks(SSL_CTX* context) {
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
  SSL_CTX_sess_set_new_cb(context, &callbacks::keep_session);
}

namespace {

std::shared_ptr<const loaded_context> current_of(const tls_context& context) {
  if (!context) {
    throw std::system_error(errc::bad_configuration, "gyre::tls: the context is empty");
  }
  return context.state()->current();
}

// The server's name, and the certificate that it must have.
void expect_host(SSL* ssl, const std::string& host, bool verify) {
  // For OpenSSL a dot in front means any name below the rest.
  if (host.starts_with('.')) {
    throw std::system_error(errc::bad_configuration, "gyre::tls: host " + host);
  }
  const bool is_address = net::ip_address::parse(host).has_value();
  bool done = true;
  if (is_address) {
    if (verify) done = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1;
  } else {
    if (!host.empty()) done = SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
    if (verify && done) {
      // RFC 9525: a common name is no name of a host.
      SSL_set_hostflags(ssl,
                        X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
      done = SSL_set1_host(ssl, host.c_str()) == 1;
    }
  }
  if (!done) throw_openssl_error(errc::bad_configuration, "gyre::tls: host " + host);
}

}  // namespace

engine::engine(const tls_context& context, std::string host, const session& resumed,
               io::buffer& output)
    : loaded_(current_of(context)), host_(std::move(host)), output_(&output) {
  if (host_.ends_with('.')) host_.pop_back();
  ERR_clear_error();
  ssl_.reset(SSL_new(loaded_->entries.front().context.get()));
  bio_ptr bio(callbacks::method() == nullptr ? nullptr : BIO_new(callbacks::method()));
  if (ssl_ == nullptr || bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio.get(), this);
  BIO_set_init(bio.get(), 1);
  SSL* const ssl = ssl_.get();
  SSL_set_info_callback(ssl, &callbacks::note_step);
  BIO* const both = bio.release();
  SSL_set_bio(ssl, both, both);
  if (loaded_->is_server) {
    SSL_set_accept_state(ssl);
    return;
  }
  if (loaded_->verify && host_.empty()) {
    throw std::system_error(errc::bad_configuration,
                            "gyre::tls: to verify the certificate, the host's name is needed");
  }
  expect_host(ssl, host_, loaded_->verify);
  const auto& protocols = loaded_->application_protocols;
  // Returns 0 if it succeeds.
  if (!protocols.empty() &&
      SSL_set_alpn_protos(ssl, protocols.data(), static_cast<unsigned>(protocols.size())) != 0) {
    throw std::bad_alloc();
  }
  if (loaded_->request_ocsp_staple) SSL_set_tlsext_status_type(ssl, TLSEXT_STATUSTYPE_ocsp);
  // A resumed session is not verified again.
  auto* const offered = static_cast<SSL_SESSION*>(resumed.native());
  if (resumed.may_be_offered(loaded_) && !(loaded_->verify && is_past_its_certificate(offered))) {
    if (const ssl_session_ptr copy = copy_of(offered)) SSL_set_session(ssl, copy.get());
  }
  SSL_set_connect_state(ssl);
}

engine::status engine::fail_with(std::error_code code, std::string text) {
  failure_ = {code, std::move(text)};
  ERR_clear_error();
  return status::failed;
}

engine::status engine::result_of(int returned) {
  switch (SSL_get_error(ssl_.get(), returned)) {
    case SSL_ERROR_NONE: return status::done;
    case SSL_ERROR_WANT_READ: return status::wants_input;
    case SSL_ERROR_ZERO_RETURN:
      // Nothing may come within a message (RFC 8446, 5.1); OpenSSL takes an alert.
      if (is_within_message()) return fail_with(errc::bad_record);
      peer_closed_ = true;
      return status::ended;
    default: break;
  }
  if (failure_.code) return status::failed;
  if (name_is_unknown_) return fail_with(errc::unknown_server_name);
  failure_ = failure_of(ssl_.get(), established_, host_, refused_names_);
  return status::failed;
}

engine::status engine::handshake() {
  if (failure_.code) return status::failed;
  ERR_clear_error();
  const status now = result_of(SSL_do_handshake(ssl_.get()));
  if (now == status::done) {
    established_ = true;
    // A session of TLS 1.2 may be resumed again, and need not come anew.
    SSL* const ssl = ssl_.get();
    if (!loaded_->is_server && !session_ && SSL_session_reused(ssl) == 1 &&
        SSL_version(ssl) < TLS1_3_VERSION) {
      callbacks::keep_session(ssl, SSL_get_session(ssl));
    }
  } else if (now == status::ended) {
    return fail_with(errc::handshake_ended);
  } else if (handshake_bytes_ > most_handshake_bytes) {
    return fail_with(errc::handshake_too_large);
  }
  return now;
}

engine::status engine::read(std::span<std::byte> room, std::size_t& count) {
  count = 0;
  if (failure_.code) return status::failed;
  while (count < room.size()) {
    ERR_clear_error();
    std::size_t part = 0;
    const int returned = SSL_read_ex(ssl_.get(), room.data() + count, room.size() - count, &part);
    if (returned != 1) {
      const status now = result_of(returned);
      return count > 0 ? status::done : now;  // the next call tells
    }
    count += part;
    steps_ = 0;
  }
  return status::done;
}

engine::status engine::peek() {
  if (failure_.code) return status::failed;
  ERR_clear_error();
  std::byte first{};
  std::size_t count = 0;
  return result_of(SSL_peek_ex(ssl_.get(), &first, 1, &count));
}

bool engine::awaits_rest() const noexcept {
  SSL* const ssl = ssl_.get();
  return SSL_has_pending(ssl) == 1 || is_within_message() ||
         SSL_rstate_string(ssl) == std::string_view("RB");  // a record's body, behind its header
}

engine::status engine::write(std::span<const std::byte> bytes) {
  if (failure_.code) return status::failed;
  while (!bytes.empty()) {
    ERR_clear_error();
    std::size_t part = 0;
    const int returned = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &part);
    if (returned != 1) {
      const status now = result_of(returned);
      return now == status::failed ? now : fail_with(errc::bad_record);
    }
    bytes = bytes.subspan(part);
    steps_ = 0;
  }
  return status::done;
}

void engine::close_notify() noexcept {
  if (!established_ || closed_ || failure_.code) return;
  closed_ = true;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

std::error_code engine::end_of_bytes() const noexcept {
  if (peer_closed_) return {};
  return established_ ? errc::truncated : errc::handshake_ended;
}

bool engine::covers_host(std::string_view host) const {
  const char* const name = SSL_get_servername(ssl_.get(), TLSEXT_NAMETYPE_host_name);
  return name == nullptr || name == host || loaded_->entry_for(name) == loaded_->entry_for(host);
}

}  // namespace gyre::tls::detail
