// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/detail/context_state.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/base/detail/duration_check.hpp>
#include <gyre/tls/detail/callbacks.hpp>
#include <gyre/tls/detail/failure.hpp>
#include <gyre/tls/detail/load_pem.hpp>
#include <gyre/tls/error.hpp>

#include <openssl/err.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <climits>
#include <stdexcept>
#include <string>

namespace gyre::tls::detail {
namespace {

using gyre::detail::to_lower;

std::vector<unsigned char> wire_form(const std::vector<std::string>& protocols) {
  std::vector<unsigned char> bytes;
  for (const std::string& protocol : protocols) {
    if (protocol.empty() || protocol.size() > UCHAR_MAX) {
      throw std::system_error(errc::bad_configuration, "gyre::tls: application_protocols");
    }
    bytes.push_back(static_cast<unsigned char>(protocol.size()));
    bytes.insert(bytes.end(), protocol.begin(), protocol.end());
  }
  return bytes;
}

int native(version protocol) noexcept {
  return protocol == version::tls_1_2 ? TLS1_2_VERSION : TLS1_3_VERSION;
}

// Returns the groups in OpenSSL's form, such as "X25519:P-256".
std::string listed_groups(const std::vector<std::string>& groups) {
  std::string list;
  for (const std::string& group : groups) list.append(list.empty() ? "" : ":").append(group);
  return list;
}

ssl_ctx_ptr make_context(const SSL_METHOD* method, version min_version, version max_version,
                         const std::vector<std::string>& groups) {
  ERR_clear_error();
  ssl_ctx_ptr result(SSL_CTX_new(method));
  if (result == nullptr) throw std::bad_alloc();
  SSL_CTX* const context = result.get();
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_read_ahead(context, 0);
  if (SSL_CTX_set_min_proto_version(context, native(min_version)) != 1 ||
      SSL_CTX_set_max_proto_version(context, native(max_version)) != 1 ||
      min_version > max_version ||
      // Restricts TLS 1.2 to ciphers with forward secrecy and authenticated encryption.
      SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1) {
    throw_openssl_error(errc::bad_configuration, "gyre::tls: versions");
  }
  if (SSL_CTX_set1_groups_list(context, listed_groups(groups).c_str()) != 1) {
    throw_openssl_error(errc::bad_configuration, "gyre::tls: groups " + listed_groups(groups));
  }
  return result;
}

// Returns a digest of the rules for clients' certificates. OpenSSL resumes a session only under the
// digest with which it began, so that tickets become invalid when the rules or authorities change.
std::array<unsigned char, 32> session_context_of(const server_options& options) {
  std::string rules = "gyre " + std::to_string(static_cast<int>(options.clients));
  if (options.clients != client_certificates::ignored) {
    rules += options.client_authorities.read();
    for (const pem& list : options.revocation_lists) rules += list.read();
  }
  std::array<unsigned char, 32> digest{};
  if (EVP_Digest(rules.data(), rules.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    throw std::system_error(errc::bad_configuration, "gyre::tls: SHA-256");
  }
  return digest;
}

// Caps the lifetime at seven days: TLS 1.3 forbids a longer lifetime (RFC 8446, section 4.6.1), and
// OpenSSL could not encode one.
duration ticket_lifetime_of(const server_options& options) {
  constexpr duration max_lifetime = std::chrono::days(7);
  gyre::detail::require_not_negative(options.ticket_lifetime,
                                     "gyre::tls::server_options: ticket_lifetime");
  return std::min(options.ticket_lifetime, max_lifetime);
}

// The certificates for one name, at most one for each kind of key, as indices into
// server_options::certificates.
using certificate_set = std::vector<std::size_t>;

loaded_context::entry make_entry(const server_options& options, const std::vector<key_pair>& pairs,
                                 const certificate_set& set) {
  ssl_ctx_ptr result =
      make_context(TLS_server_method(), options.min_version, options.max_version, options.groups);
  SSL_CTX* const context = result.get();
  std::vector<loaded_context::staple> staples;
  for (const std::size_t pair_index : set) {
    use_key_pair(context, pairs[pair_index]);
    const std::vector<std::byte>& staple = options.certificates[pair_index].ocsp_staple;
    if (!staple.empty()) staples.push_back({pairs[pair_index].leaf.get(), staple});
  }
  if (options.clients != client_certificates::ignored) {
    if (options.client_authorities.empty() ||
        !add_trusted_authorities(context, options.client_authorities, true)) {
      throw std::system_error(errc::bad_certificate, "gyre::tls: client_authorities");
    }
    use_revocation_lists(context, options.revocation_lists);
    const bool is_required = options.clients == client_certificates::required;
    enable_verification(context,
                        SSL_VERIFY_PEER | (is_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0));
  }
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);  // engine::write_tickets() writes the tickets
  const bool has_tickets = options.ticket_lifetime.count() > 0;
  if (has_tickets) {
    const duration lifetime = ticket_lifetime_of(options);
    SSL_CTX_set_timeout(context, gyre::detail::whole_units<std::chrono::seconds>(lifetime));
  } else {
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  }
  set_server_callbacks(context, has_tickets);
  return {std::move(result), std::move(staples)};
}

// Replaces the files of authorities and revocation lists by their contents, so that all
// certificates and sessions are under the same rules.
server_options read_rules(server_options options) {
  if (options.clients == client_certificates::ignored) return options;
  if (!options.client_authorities.empty()) {
    options.client_authorities = pem::text(options.client_authorities.read());
  }
  for (pem& list : options.revocation_lists) list = pem::text(list.read());
  return options;
}

// Returns the names for which a certificate is chosen, in lower case; one empty name if the
// certificate has none.
std::vector<std::string> names_for(const certificate& source, const key_pair& pair) {
  std::vector<std::string> names = source.names.empty() ? names_of(pair.leaf.get()) : source.names;
  if (names.empty()) names.emplace_back();
  for (std::string& name : names) name = to_lower(name);
  return names;
}

// Groups the certificates by name; of several with one kind of key, a name gets the first.
std::map<std::string, certificate_set> certificates_by_name(
    const std::vector<certificate>& certificates, const std::vector<key_pair>& pairs) {
  std::map<std::string, certificate_set> sets_by_name;
  for (std::size_t i = 0; i < certificates.size(); ++i) {
    for (const std::string& name : names_for(certificates[i], pairs[i])) {
      certificate_set& set = sets_by_name[name];
      const bool has_kind = std::ranges::any_of(
          set, [&](std::size_t pair_index) { return pairs[pair_index].kind() == pairs[i].kind(); });
      if (!has_kind) set.push_back(i);
    }
  }
  return sets_by_name;
}

std::shared_ptr<loaded_context> load_server_context(const server_options& user_options) {
  if (user_options.certificates.empty()) {
    throw std::system_error(errc::bad_certificate, "gyre::tls: a server needs a certificate");
  }
  const server_options options = read_rules(user_options);
  auto context_data = std::make_shared<loaded_context>();
  std::vector<key_pair> pairs;
  for (const certificate& certificate : options.certificates)
    pairs.push_back(load_key_pair(certificate));
  const std::map<std::string, certificate_set> sets_by_name =
      certificates_by_name(options.certificates, pairs);
  std::map<certificate_set, std::size_t> entries;
  const auto entry_of = [&](const certificate_set& set) {
    const auto [position, is_new] = entries.try_emplace(set, context_data->entries.size());
    if (is_new) context_data->entries.push_back(make_entry(options, pairs, set));
    return position->second;
  };
  // The first entry serves clients that send no name.
  entry_of(sets_by_name.at(names_for(options.certificates.front(), pairs.front()).front()));
  for (const auto& [name, set] : sets_by_name) {
    if (!name.empty()) context_data->by_name.emplace(name, entry_of(set));
  }
  const std::array<unsigned char, 32> id = session_context_of(options);
  for (const loaded_context::entry& target : context_data->entries) {
    SSL_CTX_set_session_id_context(target.context.get(), id.data(), id.size());
  }
  gyre::detail::require_not_negative(options.handshake_timeout,
                                     "gyre::tls::server_options: handshake_timeout");
  context_data->is_server = true;
  context_data->max_rsa_bits = options.max_rsa_bits;
  context_data->refuses_unknown_names = options.refuse_unknown_names;
  context_data->application_protocols = wire_form(options.application_protocols);
  context_data->handshake_timeout = options.handshake_timeout;
  return context_data;
}

std::shared_ptr<loaded_context> load_client_context(const client_options& options) {
  auto context_data = std::make_shared<loaded_context>();
  ssl_ctx_ptr result =
      make_context(TLS_client_method(), options.min_version, options.max_version, options.groups);
  SSL_CTX* const context = result.get();
  if (options.verify) {
    if (options.system_authorities && SSL_CTX_set_default_verify_paths(context) != 1) {
      throw_openssl_error(errc::bad_configuration, "gyre::tls: the system's authorities");
    }
    trust_all(context, options.authorities);
    use_revocation_lists(context, options.revocation_lists);
    enable_verification(context, SSL_VERIFY_PEER);
  }
  gyre::detail::require_not_negative(options.handshake_timeout,
                                     "gyre::tls::client_options: handshake_timeout");
  if (options.own_certificate) use_key_pair(context, load_key_pair(*options.own_certificate));
  set_client_callbacks(context);
  context_data->entries.push_back({std::move(result), {}});
  context_data->verifies_peer = options.verify;
  context_data->max_rsa_bits = options.max_rsa_bits;
  context_data->application_protocols = wire_form(options.application_protocols);
  context_data->requests_ocsp_staple = options.request_ocsp_staple;
  context_data->handshake_timeout = options.handshake_timeout;
  return context_data;
}

}  // namespace

const loaded_context::entry* loaded_context::entry_for(std::string_view name) const {
  std::string key = to_lower(name);
  if (key.ends_with('.')) key.pop_back();
  auto match = by_name.find(key);
  if (match == by_name.end()) {
    const std::size_t dot = key.find('.');
    if (dot != std::string::npos && dot != 0) match = by_name.find(key.replace(0, dot, 1, '*'));
  }
  if (match != by_name.end()) return &entries[match->second];
  return refuses_unknown_names ? nullptr : &entries.front();
}

const loaded_context::entry* loaded_context::entry_of(const SSL_CTX* context) const noexcept {
  const auto match = std::ranges::find_if(
      entries, [context](const entry& candidate) { return candidate.context.get() == context; });
  return match == entries.end() ? nullptr : &*match;
}

context_state::context_state(server_options options) : is_server_(true) {
  load(std::move(options));
}
context_state::context_state(client_options options) : is_server_(false) {
  load(std::move(options));
}

void context_state::load(any_options options) {
  std::shared_ptr<loaded_context> context_data;
  duration lifetime;
  if (const auto* const server = std::get_if<server_options>(&options)) {
    context_data = load_server_context(*server);
    lifetime = ticket_lifetime_of(*server);
  } else {
    context_data = load_client_context(std::get<client_options>(options));
  }
  const std::scoped_lock lock(mutex_);
  if (lifetime != ticket_lifetime_) {
    ticket_keys_ = lifetime.count() > 0 ? std::make_shared<ticket_keys>(lifetime) : nullptr;
    ticket_lifetime_ = lifetime;
  }
  context_data->shared_ticket_keys = ticket_keys_;
  options_ = std::move(options);
  current_ = std::move(context_data);
}

void context_state::reload() {
  const std::scoped_lock reload_lock(reload_mutex_);
  std::unique_lock lock(mutex_);
  any_options options = options_;
  lock.unlock();
  load(std::move(options));
}

void context_state::reload(server_options options) {
  if (!is_server_) throw std::logic_error("gyre::tls::tls_context::reload: a client's context");
  const std::scoped_lock reload_lock(reload_mutex_);
  load(std::move(options));
}
void context_state::reload(client_options options) {
  if (is_server_) throw std::logic_error("gyre::tls::tls_context::reload: a server's context");
  const std::scoped_lock reload_lock(reload_mutex_);
  load(std::move(options));
}

}  // namespace gyre::tls::detail
