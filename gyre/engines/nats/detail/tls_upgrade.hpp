// SPDX-License-Identifier: Apache-2.0
// tls_transport, tls_upgrade: TLS below a NATS client, which begins after the server's INFO.
#pragma once

#include <gyre/net/layer.hpp>
#include <gyre/tls/tls_context.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace gyre::nats::detail {

/// A layer that lets the first line, INFO, pass unencrypted, and is another layer after that.
///
/// Errors: errc::tls_not_available if INFO offers no TLS; errc::bad_message if the first line is
/// not INFO.
class tls_upgrade final : public net::layer {
 public:
  /// `encryption`: a client's layer of TLS.
  explicit tls_upgrade(std::unique_ptr<net::layer> encryption) noexcept;

  status handshake() override;
  duration handshake_timeout() const noexcept override;
  std::error_code timeout_error() const noexcept override;
  std::size_t held_by_handshake() const noexcept override;

  status read(std::span<std::byte> buffer, std::size_t& count) override;
  status peek() override;
  bool may_write() const noexcept override { return encryption_->may_write(); }
  status write(std::span<const std::byte> bytes) override;
  void end() override;

  bool awaits_rest() const noexcept override { return encryption_->awaits_rest(); }
  std::error_code end_of_bytes() const noexcept override { return encryption_->end_of_bytes(); }
  std::string_view stream_name() const noexcept override { return encryption_->stream_name(); }
  std::string_view peer_name() const noexcept override { return encryption_->peer_name(); }

 private:
  status read_info();
  /// Calls `step(encryption)` with this layer's bytes and output, and takes over its state.
  template <class Step>
  status pass(Step step);

  std::unique_ptr<net::layer> encryption_;
  std::string info_;               // the line of INFO, until read() has returned it
  std::size_t info_given_ = 0;     // how many bytes of info_ read() has returned
  std::size_t scanned_bytes_ = 0;  // bytes that were searched for the line's end
};

/// Makes the layers of a client: tls_upgrade, or TLS from the first byte on.
///
/// Thread-safety: the loop's thread.
class tls_transport final : public net::transport {
 public:
  tls_transport(const tls::tls_context& context, bool is_first);

  std::unique_ptr<net::layer> make_layer(std::string_view host) const override;
  /// The name that the certificates of further connections must have; empty: the host's own.
  void set_certificate_name(std::string name) { name_ = std::move(name); }

 private:
  const std::shared_ptr<const net::transport> encryption_;
  const bool is_first_;
  std::string name_;
};

}  // namespace gyre::nats::detail
