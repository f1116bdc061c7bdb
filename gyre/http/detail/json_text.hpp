// SPDX-License-Identifier: Apache-2.0
// append_json_string: a text as a string of JSON (RFC 8259).
#pragma once

#include <string>
#include <string_view>

namespace gyre::http::detail {

/// Appends `text` in quotes. Bytes that are not UTF-8 are the caller's: they are passed on.
void append_json_string(std::string& output, std::string_view text);

}  // namespace gyre::http::detail
