// SPDX-License-Identifier: Apache-2.0
// payload_view: the bytes of a message to be published, which may be given as text.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>

namespace gyre::nats {

/// A view of a payload: of a text or of bytes; `{}` is an empty one.
///
/// Lifetime: the bytes must outlive the view, and calls that take it.
class payload_view {
 public:
  constexpr payload_view() noexcept = default;
  template <std::convertible_to<std::string_view> Text>
  constexpr payload_view(const Text& text) noexcept : text_(text) {}
  payload_view(std::span<const std::byte> bytes) noexcept
      : text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}
  template <class Bytes>
    requires(!std::convertible_to<const Bytes&, std::string_view> &&
             std::convertible_to<const Bytes&, std::span<const std::byte>>)
  payload_view(const Bytes& bytes) noexcept : payload_view(std::span<const std::byte>(bytes)) {}

  constexpr std::string_view text() const noexcept { return text_; }
  constexpr std::size_t size() const noexcept { return text_.size(); }

 private:
  std::string_view text_;
};

}  // namespace gyre::nats
