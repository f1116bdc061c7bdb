// SPDX-License-Identifier: Apache-2.0
// engine: one end of a TLS connection as a layer, over bytes that its owner receives and sends.
//
// OpenSSL reads the received bytes that feed() names, and appends records to the owner's buffer,
// through a BIO of gyre.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/tls/detail/context_state.hpp>
#include <gyre/tls/detail/failure.hpp>
#include <gyre/tls/detail/openssl.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/session.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::tls::detail {

/// TLS as a layer: OpenSSL, without I/O.
///
/// Lifetime: must stay in place.
class engine : public net::layer {
 public:
  /// A server's engine allocates OpenSSL's objects only when the first bytes arrive. Throws
  /// std::system_error.
  engine(const tls_context& context, std::string host, const session& previous_session);
  engine(const tls_context& context, std::string host, const session& previous_session,
         io::buffer& output)
      : engine(context, std::move(host), previous_session) {
    send_to(output);
  }

  status handshake() override;
  duration handshake_timeout() const noexcept override { return context_data_->handshake_timeout; }
  std::error_code timeout_error() const noexcept override { return errc::handshake_timeout; }
  std::size_t held_by_handshake() const noexcept override;

  /// Decrypts up to `buffer.size()` bytes, of one record or several.
  status read(std::span<std::byte> buffer, std::size_t& count) override;
  status peek() override;
  /// Whether write() may be called: false while only a part of a post-handshake message of the peer
  /// has arrived.
  bool may_write() const noexcept override {
    return has_announced_end() || why().code || !is_within_message();
  }
  /// Encrypts all bytes. Fails with errc::bad_record unless may_write().
  status write(std::span<const std::byte> bytes) override;
  /// Writes the pending tickets of a TLS 1.3 server. The first write() with bytes does so, or else
  /// end(). Tickets sent with the handshake would harm a client that never reads: closing its
  /// socket with unread bytes would reset the connection, and its last bytes would be lost.
  status write_tickets();
  /// Sends close_notify if may_write() is true.
  void end() noexcept override;

  /// Whether a part of a record, or of a handshake message, has arrived and the rest has not.
  bool awaits_rest() const noexcept override;
  std::error_code end_of_bytes() const noexcept override;
  std::string_view stream_name() const noexcept override { return "gyre::tls::tls_stream"; }
  std::string_view peer_name() const noexcept override { return host_; }

  /// Whether a server may serve `host` on this connection. False if the client requested another
  /// name (SNI), and the context has another certificate for `host`, or refuses `host`. True if the
  /// client requested no name.
  bool covers_host(std::string_view host) const override;
  void offer_protocols(std::span<const std::string> protocols) noexcept override {
    offered_protocols_ = protocols;
  }
  /// Called in a client before the handshake. Offers `protocols` by ALPN, unless the context names
  /// others. Throws std::bad_alloc.
  void request_protocols(std::span<const std::string> protocols);
  /// Returns the protocol that ALPN has chosen.
  std::string_view application_protocol() const noexcept override;
  const std::string& host() const noexcept { return host_; }
  const loaded_context& loaded() const noexcept { return *context_data_; }
  /// Returns the SSL object; null in a server until the first bytes have come.
  SSL* native() const noexcept { return ssl_.get(); }
  const session& newest_session() const noexcept { return session_; }

 private:
  friend struct callbacks;

  void make_ssl();
  bool begin_to_serve();
  void refuse_other_protocol();
  void count_pending_tickets() noexcept;
  int make_tickets() noexcept;
  void count_data(std::size_t bytes) noexcept;
  status fail_with(std::error_code code, std::string text = {});
  status result_of(int call_result);
  bool wants_input() noexcept;
  // Whether only a part of a post-handshake message of the peer has arrived.
  bool is_within_message() const noexcept {
    return is_established_ && SSL_in_init(ssl_.get()) == 1;
  }

  std::shared_ptr<const loaded_context> context_data_;
  std::string host_;
  // The first bytes that a server received: the headers of a record and of the message in it.
  std::array<std::byte, 9> first_bytes_{};
  std::uint8_t first_byte_count_ = 0;
  // The part of first_bytes_ that OpenSSL has not read.
  std::span<const std::byte> unread_first_bytes_;
  std::size_t handshake_bytes_ = 0;
  std::size_t steps_ = 0;                   // handshake steps in the period, see note_step()
  steady_time step_period_start_{};         // the beginning of the period in which steps_ counts
  std::size_t credit_ = 0;                  // data bytes not yet deducted from steps_
  std::vector<std::string> refused_names_;  // the names in a certificate of another host
  std::size_t too_large_key_ = 0;           // the size in bits of the refused key; 0: none
  // Server: used if the context names no protocols.
  std::span<const std::string> offered_protocols_;
  std::string requested_name_;  // server: the name the client sent, in lower case
  session session_;
  bool wants_input_ = false;  // whether OpenSSL can read nothing before more bytes are fed
  bool is_name_unknown_ = false;
  bool has_sent_alert_ = false;
  bool may_resume_ = false;           // server: whether the client can use tickets of TLS 1.3
  std::uint8_t pending_tickets_ = 0;  // the tickets that write_tickets() has yet to write
  const loaded_context::entry* entry_ = nullptr;  // server: the certificates for the client's name
  ssl_ptr ssl_;
};

}  // namespace gyre::tls::detail
