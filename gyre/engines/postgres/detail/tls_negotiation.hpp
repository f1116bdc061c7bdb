// SPDX-License-Identifier: Apache-2.0
// tls_negotiation: TLS of a connection to PostgreSQL, for which the server is asked first, or not.
#pragma once

#include <gyre/engines/postgres/detail/connection_options.hpp>
#include <gyre/net/layer.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace gyre::postgres::detail {

/// The layer of a client: asks for TLS (SSLRequest), and becomes TLS when the server agrees.
///
/// | phase      | nothing fed  | 'S'    | 'N'    | anything else |
/// |------------|--------------|--------|--------|---------------|
/// | asking     | sends it (1) | secure | failed | failed        |
/// | secure (2) | -            | -      | -      | TLS           |
///
/// 1. SSLRequest is sent once.
/// 2. Bytes that came with the 'S' fail: they are not encrypted, and an attacker between client and
///    server could have inserted them before those of the server (CVE-2021-23222).
class tls_negotiation final : public net::layer {
 public:
  tls_negotiation(std::unique_ptr<net::layer> encryption, tls_mode mode);

  /// Returns the layer of TLS, for tls::server_end_point().
  const net::layer& secure() const noexcept { return *secure_; }

  status handshake() override;
  duration handshake_timeout() const noexcept override { return secure_->handshake_timeout(); }
  std::error_code timeout_error() const noexcept override { return secure_->timeout_error(); }
  std::size_t held_by_handshake() const noexcept override { return secure_->held_by_handshake(); }
  status read(std::span<std::byte> buffer, std::size_t& count) override;
  status peek() override;
  bool may_write() const noexcept override { return secure_->may_write(); }
  status write(std::span<const std::byte> bytes) override;
  void end() override;
  bool awaits_rest() const noexcept override;
  std::error_code end_of_bytes() const noexcept override;
  std::string_view stream_name() const noexcept override { return secure_->stream_name(); }
  std::string_view peer_name() const noexcept override { return secure_->peer_name(); }

 private:
  enum class phase : unsigned char { asking, asked, secure };

  status negotiate();
  template <class Step>
  status run(Step step);
  status check_application();

  const std::unique_ptr<net::layer> secure_;
  const tls_mode mode_;
  phase phase_;
};

/// Makes the transport of connections with `options.encryption`; returns null without encryption.
/// `host`: the name that the server's certificate must have; if it is empty, that of the host to
/// which the client connects.
std::shared_ptr<const net::transport> make_transport(const connection_options& options,
                                                     std::string host = {});

/// Returns the bytes to which a login can be bound; empty if there are none. `protocol`: the layer
/// of a connection, or null.
std::vector<std::byte> channel_of(const net::layer* protocol);

}  // namespace gyre::postgres::detail
