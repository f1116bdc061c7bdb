// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/detail/callbacks.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/tls/detail/engine.hpp>
#include <gyre/tls/error.hpp>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::tls::detail {
namespace {

// Limits the steps of OpenSSL's handshake state machine per minute after the handshake has ended. A
// message such as KeyUpdate takes up to five steps: its key change costs 50 us, the message only 22
// bytes, and thousands may arrive at once.
constexpr std::size_t max_steps = 320;
constexpr std::chrono::minutes step_period{1};

// Returns the name in a client's server_name extension (RFC 6066, 3); empty if the extension is
// malformed, which fails the handshake later.
std::string_view name_in(std::span<const unsigned char> extension) {
  constexpr std::size_t head = 5;  // the list's length, the name's kind and the name's length
  if (extension.size() < head || extension[2] != TLSEXT_NAMETYPE_host_name) return {};
  const std::size_t size = std::size_t{extension[3]} << 8 | extension[4];
  if (size > extension.size() - head) return {};
  return {reinterpret_cast<const char*>(extension.data() + head), size};
}

// Chooses the first of `protocols` that the client wants; none if it wants others.
int choose_offered(std::span<const std::string> protocols,
                   std::span<const unsigned char> client_protocols, const unsigned char** choice,
                   unsigned char* size) {
  for (const std::string& protocol : protocols) {
    for (std::span<const unsigned char> rest = client_protocols; !rest.empty();) {
      const std::size_t length = std::min<std::size_t>(rest[0], rest.size() - 1);
      const std::span<const unsigned char> name = rest.subspan(1, length);
      if (std::ranges::equal(name, std::as_bytes(std::span(protocol)), {},
                             [](unsigned char byte) { return std::byte{byte}; })) {
        *choice = name.data();
        *size = static_cast<unsigned char>(length);
        return SSL_TLSEXT_ERR_OK;
      }
      rest = rest.subspan(1 + length);
    }
  }
  return SSL_TLSEXT_ERR_NOACK;
}

// Returns the size in bits of an RSA, DSA or DH key, whose cost grows faster than its size; 0 for
// other keys.
int bits_of_modulus(X509* certificate) noexcept {
  const EVP_PKEY* const key = X509_get0_pubkey(certificate);
  if (key == nullptr) return 0;
  switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_RSA:
    case EVP_PKEY_RSA_PSS:
    case EVP_PKEY_DSA:
    case EVP_PKEY_DH: return EVP_PKEY_get_bits(key);
    default: return 0;
  }
}

// Whether a client that requested `name` may resume the session. A session of TLS 1.2 belongs to
// the name that its client requested (RFC 6066, 3); a session of TLS 1.3 belongs to no name,
// because each handshake sends the name.
bool is_for_name(const SSL_SESSION* session, std::string_view name) {
  if (SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION) return true;
  const char* const session_name = SSL_SESSION_get0_hostname(session);
  return gyre::detail::to_lower(session_name == nullptr ? "" : session_name) == name;
}

// Fetches the cipher once: EVP_aes_256_cbc() would be looked up by its name for each ticket.
const EVP_CIPHER* ticket_cipher() noexcept {
  static const EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "AES-256-CBC", nullptr);
  return cipher != nullptr ? cipher : EVP_aes_256_cbc();
}

}  // namespace

ssl_session_ptr copy_of(const SSL_SESSION* session) {
  return ssl_session_ptr(SSL_SESSION_dup(session));
}

// --- The BIO ---

int callbacks::read(BIO* bio, char* buffer, std::size_t size, std::size_t* count) {
  engine& self = engine_of(bio);
  BIO_clear_retry_flags(bio);
  *count = 0;
  if (self.steps_ > max_steps) {
    self.failure_.code = errc::bad_record;
    return 0;
  }
  std::span<const std::byte>& source =
      self.unread_first_bytes_.empty() ? self.unread_ : self.unread_first_bytes_;
  *count = std::min(size, source.size());
  if (*count == 0) {
    BIO_set_retry_read(bio);
    return 0;
  }
  std::memcpy(buffer, source.data(), *count);
  source = source.subspan(*count);
  if (!self.is_established_) self.handshake_bytes_ += *count;
  return 1;
}
int callbacks::write(BIO* bio, const char* bytes, std::size_t size, std::size_t* count) {
  engine& self = engine_of(bio);
  BIO_clear_retry_flags(bio);
  *count = 0;
  try {
    self.output().append(std::string_view(bytes, size));
  } catch (const std::exception&) {
    self.failure_.code = std::make_error_code(std::errc::not_enough_memory);
    return 0;
  }
  *count = size;
  return 1;
}
long callbacks::control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}
BIO_METHOD* callbacks::method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const new_method =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gyre buffers");
    if (new_method != nullptr) {
      BIO_meth_set_read_ex(new_method, &read);
      BIO_meth_set_write_ex(new_method, &write);
      BIO_meth_set_ctrl(new_method, &control);
    }
    return new_method;
  }();
  return method;
}

void callbacks::note_step(const SSL* ssl, int step, int /*value*/) {
  engine& self = engine_of(ssl);
  if ((step & SSL_CB_LOOP) != 0 && self.is_established_) {
    const steady_time current_time = gyre::detail::monotonic_now();
    if (current_time - self.step_period_start_ >= step_period) {
      self.step_period_start_ = current_time;
      self.steps_ = 0;
    }
    ++self.steps_;
  }
  if ((step & SSL_CB_WRITE_ALERT) == SSL_CB_WRITE_ALERT) self.has_sent_alert_ = true;
}

// --- Servers ---

// Stores the name that the client requested, and whether the client can use tickets. OpenSSL calls
// this function before it resumes a session, but parses the name itself only afterwards.
int callbacks::note_hello(SSL* ssl, int* alert, void* /*argument*/) {
  const unsigned char* bytes = nullptr;
  std::size_t size = 0;
  std::string_view name;
  if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &bytes, &size) == 1) {
    name = name_in({bytes, size});
  }
  engine& self = engine_of(ssl);
  // Without this extension the client cannot use a ticket (RFC 8446, 4.2.9).
  self.may_resume_ = SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_psk_kex_modes, &bytes, &size) == 1;
  try {
    self.requested_name_ = gyre::detail::to_lower(name);
  } catch (const std::bad_alloc&) {
    *alert = SSL_AD_INTERNAL_ERROR;
    return SSL_CLIENT_HELLO_ERROR;
  }
  return SSL_CLIENT_HELLO_SUCCESS;
}

// Looks up the certificates for the client's name. OpenSSL calls this function in each handshake,
// even without a name, but choose_certificate() only if no session is resumed. SSL_TLSEXT_ERR_OK
// makes a TLS 1.2 session keep the name, which a resumed connection then returns.
int callbacks::accept_name(SSL* ssl, int* /*alert*/, void* /*argument*/) {
  engine& self = engine_of(ssl);
  try {
    const char* const name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    self.entry_ = self.context_data_->entry_for(name == nullptr ? "" : name);
    self.is_name_unknown_ = self.entry_ == nullptr;
  } catch (const std::bad_alloc&) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  return self.is_name_unknown_ ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_OK;
}

int callbacks::choose_certificate(SSL* ssl, void* /*argument*/) {
  const loaded_context::entry* const entry = engine_of(ssl).entry_;
  if (entry == nullptr) return 0;
  SSL_set_SSL_CTX(ssl, entry->context.get());
  // In TLS 1.3 each handshake sends the name, so that tickets need not contain it.
  if (SSL_version(ssl) >= TLS1_3_VERSION &&
      SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) != nullptr) {
    SSL_SESSION_set1_hostname(SSL_get_session(ssl), nullptr);
  }
  return 1;
}

int callbacks::choose_application_protocol(SSL* ssl, const unsigned char** choice,
                                           unsigned char* size, const unsigned char* offered_names,
                                           unsigned int offered_size, void* /*argument*/) {
  const auto& protocols = engine_of(ssl).context_data_->application_protocols;
  const std::span<const unsigned char> names(offered_names, offered_size);
  if (protocols.empty()) {
    return choose_offered(engine_of(ssl).offered_protocols_, names, choice, size);
  }
  unsigned char* name = nullptr;
  const int outcome =
      SSL_select_next_proto(&name, size, protocols.data(), static_cast<unsigned>(protocols.size()),
                            offered_names, offered_size);
  if (outcome != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *choice = name;
  return SSL_TLSEXT_ERR_OK;
}

int callbacks::staple(SSL* ssl, void* /*argument*/) {
  const loaded_context& context_data = *engine_of(ssl).context_data_;
  const auto* const entry = context_data.entry_of(SSL_get_SSL_CTX(ssl));
  if (entry == nullptr) return SSL_TLSEXT_ERR_NOACK;
  const X509* const certificate = SSL_get_certificate(ssl);
  const auto match = std::ranges::find_if(
      entry->staples, [certificate](const auto& staple) { return staple.of == certificate; });
  if (match == entry->staples.end()) return SSL_TLSEXT_ERR_NOACK;
  const std::vector<std::byte>& bytes = match->bytes;
  void* const copy = OPENSSL_memdup(bytes.data(), bytes.size());
  if (copy == nullptr) return SSL_TLSEXT_ERR_NOACK;
  SSL_set_tlsext_status_ocsp_resp(ssl, copy, static_cast<long>(bytes.size()));
  return SSL_TLSEXT_ERR_OK;
}

// Returns -1 for an error, 0 for a full handshake, 1 for success, and 2 for success with a ticket
// that must be renewed.
int callbacks::protect_ticket(SSL* ssl, unsigned char* name, unsigned char* iv,
                              EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac, int is_encrypting) {
  const loaded_context& context_data = *engine_of(ssl).context_data_;
  if (context_data.shared_ticket_keys == nullptr) return 0;
  try {
    const steady_time current_time = gyre::detail::monotonic_now();
    ticket_key key;
    int outcome = 1;
    if (is_encrypting != 0) {
      const auto newest_key = context_data.shared_ticket_keys->newest(current_time);
      if (!newest_key || RAND_bytes(iv, EVP_CIPHER_get_iv_length(ticket_cipher())) != 1) return -1;
      key = *newest_key;
      std::ranges::copy(key.name, name);
    } else {
      const auto match =
          context_data.shared_ticket_keys->find(std::span(name, key.name.size()), current_time);
      if (!match) return 0;
      key = match->key;
      // A TLS 1.3 client uses a ticket once (RFC 8446, C.4), so it needs a new ticket each time.
      outcome = match->is_newest && SSL_version(ssl) < TLS1_3_VERSION ? 1 : 2;
    }
    char digest[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key.mac.data(), key.mac.size()),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end()};
    const bool is_ready = EVP_CipherInit_ex(cipher, ticket_cipher(), nullptr, key.cipher.data(), iv,
                                            is_encrypting != 0 ? 1 : 0) == 1 &&
                          EVP_MAC_CTX_set_params(mac, parameters) == 1;
    return is_ready ? outcome : -1;
  } catch (const std::exception&) {
    return -1;
  }
}

// Decides whether a decrypted ticket may resume its session. OpenSSL does not verify the
// certificate of a resumed session again, and each resumption in TLS 1.3 issues a ticket with a new
// lifetime: without this check a client could continue for ever after its certificate has expired.
SSL_TICKET_RETURN callbacks::judge_ticket(SSL* ssl, SSL_SESSION* session,
                                          const unsigned char* /*name*/, std::size_t /*size*/,
                                          SSL_TICKET_STATUS status, void* /*argument*/) {
  switch (status) {
    case SSL_TICKET_EMPTY:
    case SSL_TICKET_NO_DECRYPT: return SSL_TICKET_RETURN_IGNORE_RENEW;
    case SSL_TICKET_SUCCESS:
    case SSL_TICKET_SUCCESS_RENEW: break;
    default: return SSL_TICKET_RETURN_ABORT;
  }
  if (has_expired_certificate(session)) return SSL_TICKET_RETURN_IGNORE_RENEW;
  try {
    if (!is_for_name(session, engine_of(ssl).requested_name_))
      return SSL_TICKET_RETURN_IGNORE_RENEW;
  } catch (const std::bad_alloc&) {
    return SSL_TICKET_RETURN_ABORT;
  }
  return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

// --- Certificates of peers ---

// Refuses RSA keys above max_rsa_bits before OpenSSL checks a signature of the chain or looks for
// an issuer.
int callbacks::verify_chain(X509_STORE_CTX* chain, void* /*argument*/) {
  const auto* const ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  engine& self = engine_of(ssl);
  const STACK_OF(X509)* const certificates = X509_STORE_CTX_get0_untrusted(chain);
  int bits = bits_of_modulus(X509_STORE_CTX_get0_cert(chain));
  for (int i = 0; i < sk_X509_num(certificates); ++i) {
    bits = std::max(bits, bits_of_modulus(sk_X509_value(certificates, i)));
  }
  if (static_cast<std::size_t>(bits) <= self.context_data_->max_rsa_bits)
    return X509_verify_cert(chain);
  self.too_large_key_ = static_cast<std::size_t>(bits);
  X509_STORE_CTX_set_error(chain, X509_V_ERR_CERT_REJECTED);
  return 0;
}

int callbacks::verified(int is_good, X509_STORE_CTX* chain) {
  const int error = X509_STORE_CTX_get_error(chain);
  if (is_good == 1 ||
      (error != X509_V_ERR_HOSTNAME_MISMATCH && error != X509_V_ERR_IP_ADDRESS_MISMATCH)) {
    return is_good;
  }
  const auto* const ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  try {
    engine_of(ssl).refused_names_ = hosts_of(X509_STORE_CTX_get0_cert(chain));
  } catch (const std::bad_alloc&) {
    return is_good;  // without memory, the error message lacks the names
  }
  return is_good;
}

// --- Clients ---

// Stores a copy of the session. Returns 0, so that OpenSSL keeps ownership of `ssl_session`.
int callbacks::keep_session(SSL* ssl, SSL_SESSION* ssl_session) {
  engine& self = engine_of(ssl);
  try {
    if (ssl_session_ptr copy = copy_of(ssl_session)) {
      self.session_ = session(std::shared_ptr<SSL_SESSION>(std::move(copy)), self.context_data_);
    }
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return 0;
}
void set_server_callbacks(SSL_CTX* context, bool has_tickets) {
  SSL_CTX_set_client_hello_cb(context, &callbacks::note_hello, nullptr);
  SSL_CTX_set_tlsext_servername_callback(context, &callbacks::accept_name);
  SSL_CTX_set_cert_cb(context, &callbacks::choose_certificate, nullptr);
  SSL_CTX_set_alpn_select_cb(context, &callbacks::choose_application_protocol, nullptr);
  SSL_CTX_set_tlsext_status_cb(context, &callbacks::staple);
  if (!has_tickets) return;
  SSL_CTX_set_tlsext_ticket_key_evp_cb(context, &callbacks::protect_ticket);
  SSL_CTX_set_session_ticket_cb(context, nullptr, &callbacks::judge_ticket, nullptr);
}

void enable_verification(SSL_CTX* context, int mode) {
  // Accepts a chain that ends at a trusted intermediate authority, or at a trusted certificate of
  // the peer, without a root.
  X509_STORE_set_flags(SSL_CTX_get_cert_store(context), X509_V_FLAG_PARTIAL_CHAIN);
  SSL_CTX_set_verify(context, mode, &callbacks::verified);
  SSL_CTX_set_cert_verify_callback(context, &callbacks::verify_chain, nullptr);
}

void set_client_callbacks(SSL_CTX* context) {
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
  SSL_CTX_sess_set_new_cb(context, &callbacks::keep_session);
}

}  // namespace gyre::tls::detail
