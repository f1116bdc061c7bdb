// SPDX-License-Identifier: Apache-2.0
// proxy_layer: the PROXY header with which a connection begins, as a layer that only has a
// handshake.
#pragma once

#include <gyre/net/layer.hpp>
#include <gyre/net/proxy_protocol.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <system_error>
#include <utility>

namespace gyre::net::detail {

/// Takes the header off. Bytes after it pass unchanged; to save their copy, a server drops the
/// layer after its handshake, and continues with unread().
///
/// Thread-safety, Lifetime, Errors: as layer.
class proxy_layer final : public layer {
 public:
  explicit proxy_layer(const proxy_protocol_options& options) noexcept
      : limit_(options.limit), timeout_(options.timeout) {
    established_ = false;
  }

  status handshake() override {
    parsed_proxy_header parsed = parse_proxy_header(unread(), limit_);
    if (!parsed) return fail(parsed.error());
    if (!*parsed) return status::wants_input;
    header_ = std::move(**parsed);
    consume(header_.size);
    established_ = true;
    return status::done;
  }
  duration handshake_timeout() const noexcept override { return timeout_; }
  std::size_t held_by_handshake() const noexcept override { return unread().size(); }

  status read(std::span<std::byte> room, std::size_t& count) override {
    count = std::min(room.size(), unread().size());
    std::ranges::copy(unread().first(count), room.begin());
    consume(count);
    return count > 0 ? status::done : status::wants_input;
  }
  status peek() override { return unread().empty() ? status::wants_input : status::done; }
  status write(std::span<const std::byte> bytes) override {
    output().append(bytes);
    return status::done;
  }

  /// After the handshake.
  proxy_header take_header() noexcept { return std::move(header_); }

 private:
  const std::size_t limit_;
  const duration timeout_;
  proxy_header header_;
};

}  // namespace gyre::net::detail
