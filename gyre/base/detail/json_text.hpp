// SPDX-License-Identifier: Apache-2.0
// append_json_string: a text as a string of JSON (RFC 8259).
#pragma once

#include <string>
#include <string_view>

namespace gyre::detail {

/// Appends `text` in quotes, with U+FFFD for bytes that are not UTF-8: parsers would refuse them.
void append_json_string(std::string& output, std::string_view text);

}  // namespace gyre::detail
