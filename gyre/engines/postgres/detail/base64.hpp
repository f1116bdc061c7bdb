// SPDX-License-Identifier: Apache-2.0
// encode_base64, decode_base64: Base64 (RFC 4648, 4) by OpenSSL.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::postgres::detail {

std::string encode_base64(std::span<const std::byte> bytes);
/// None if `text` is no Base64 with its padding.
std::optional<std::vector<std::byte>> decode_base64(std::string_view text);

}  // namespace gyre::postgres::detail
