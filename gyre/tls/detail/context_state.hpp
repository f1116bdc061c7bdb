// SPDX-License-Identifier: Apache-2.0
// context_state: a context's options and OpenSSL's objects made from them, replaced by reload().
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/tls/detail/openssl.hpp>
#include <gyre/tls/detail/ticket_keys.hpp>
#include <gyre/tls/tls_context.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gyre::tls::detail {

/// OpenSSL's objects made from one version of the options. Immutable, shared by connections.
struct loaded_context {
  /// An OCSP response for one certificate.
  struct staple {
    const X509* of;
    std::vector<std::byte> bytes;
  };
  /// The certificates for some names, one of each kind of key, in an SSL_CTX of their own.
  struct entry {
    ssl_ctx_ptr context;
    std::vector<staple> staples;
  };

  /// Returns the entry for a client's server name, which may be empty; null if the name is refused.
  const entry* entry_for(std::string_view name) const;
  const entry* entry_of(const SSL_CTX* context) const noexcept;

  std::vector<entry> entries;  // the first entry is the default one
  // Maps a lower-case name or wildcard to the index of an entry.
  std::map<std::string, std::size_t> by_name;
  bool refuses_unknown_names = false;
  std::vector<unsigned char> application_protocols;  // the protocols in the wire format of ALPN
  std::shared_ptr<ticket_keys> shared_ticket_keys;
  duration handshake_timeout;
  std::size_t max_rsa_bits = 0;
  bool is_server = false;
  bool verifies_peer = true;
  bool requests_ocsp_staple = false;
};

/// The options of a context and the objects made from them.
///
/// Thread-safety: any thread.
class context_state {
 public:
  explicit context_state(server_options options);
  explicit context_state(client_options options);

  std::shared_ptr<const loaded_context> current() const {
    const std::scoped_lock lock(mutex_);
    return current_;
  }
  bool is_server() const noexcept { return is_server_; }
  void reload();
  void reload(server_options options);
  void reload(client_options options);

 private:
  using any_options = std::variant<server_options, client_options>;

  void load(any_options options);

  const bool is_server_;
  std::mutex reload_mutex_;  // serialises reload(): a slow one must not replace a newer one
  mutable std::mutex mutex_;
  any_options options_;
  std::shared_ptr<const loaded_context> current_;
  std::shared_ptr<ticket_keys> ticket_keys_;
  duration ticket_lifetime_;
};

}  // namespace gyre::tls::detail
