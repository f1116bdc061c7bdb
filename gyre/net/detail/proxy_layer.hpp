// SPDX-License-Identifier: Apache-2.0
// proxy_layer: the PROXY header with which a connection begins, as a layer that only has a
// handshake.
#pragma once

#include <gyre/base/endian.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/proxy_protocol.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>
#include <utility>

namespace gyre::net::detail {

/// Reads the header as its handshake. Bytes after the header pass unchanged; to avoid a copy of
/// them, a server drops the layer after the handshake, and continues with unread().
///
/// Thread-safety, Lifetime, Errors: as layer.
class proxy_layer final : public layer {
 public:
  /// Whether bytes after the header may be received together with the header.
  enum class extent : bool { any, header_only };

  explicit proxy_layer(const proxy_protocol_options& options,
                       extent received_extent = extent::any) noexcept
      : limit_(options.limit), timeout_(options.timeout), extent_(received_extent) {
    is_established_ = false;
  }

  status handshake() override {
    parsed_proxy_header header = parse_proxy_header(unread(), limit_);
    if (!header) return fail(header.error());
    if (!*header) return status::wants_input;
    header_ = std::move(**header);
    consume(header_.size);
    is_established_ = true;
    return status::done;
  }
  duration handshake_timeout() const noexcept override { return timeout_; }
  std::size_t max_input() const noexcept override {
    return extent_ == extent::any ? layer::max_input() : surely_missing();
  }
  bool has_heavy_handshake() const noexcept override { return false; }
  std::size_t held_by_handshake() const noexcept override {
    return is_established() ? 0 : unread().size();
  }

  status read(std::span<std::byte> buffer, std::size_t& count) override {
    count = std::min(buffer.size(), unread().size());
    std::ranges::copy(unread().first(count), buffer.begin());
    consume(count);
    return count > 0 ? status::done : status::wants_input;
  }
  status peek() override { return unread().empty() ? status::wants_input : status::done; }
  status write(std::span<const std::byte> bytes) override {
    output().append(bytes);
    return status::done;
  }

  /// Returns the header. Called after the handshake.
  proxy_header take_header() noexcept { return std::move(header_); }

 private:
  // Returns the number of header bytes that must still follow in each form of the header.
  std::size_t surely_missing() const noexcept {
    constexpr std::size_t min_version_1_size = 15;  // "PROXY UNKNOWN\r\n"
    constexpr std::size_t fixed_2 = 16;
    const std::span<const std::byte> input = unread();
    if (input.size() < min_version_1_size) return min_version_1_size - input.size();
    if (input.front() == std::byte{'P'}) return 1;
    if (input.size() < fixed_2) return fixed_2 - input.size();
    return fixed_2 + load_be<std::uint16_t>(input.data() + 14) - input.size();
  }

  const std::size_t limit_;
  const duration timeout_;
  const extent extent_;
  proxy_header header_;
};

}  // namespace gyre::net::detail
