// SPDX-License-Identifier: Apache-2.0
// encode_base64, decode_base64: bytes as text (RFC 4648, section 4).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre::detail {

std::string encode_base64(std::span<const std::byte> bytes);
/// Nothing for a text that is not padded, or has characters outside the alphabet.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace gyre::detail
