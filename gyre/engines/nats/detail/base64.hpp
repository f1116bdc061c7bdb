// SPDX-License-Identifier: Apache-2.0
// decode_base64: bytes from the text of RFC 4648, section 4.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gyre::nats::detail {

/// Nothing for a text that is not padded, or has characters outside the alphabet.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace gyre::nats::detail
