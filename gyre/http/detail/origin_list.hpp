// SPDX-License-Identifier: Apache-2.0
// check_origins, contains_origin: lists of origins whose pages may read responses, or open a
// WebSocket: cors_options::origins documents their form.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gyre::http::detail {

/// Throws std::invalid_argument, which names `owner`, for a malformed list.
void check_origins(std::span<const std::string> origins, const char* owner);

/// Whether the list is "*".
bool allows_any_origin(std::span<const std::string> origins) noexcept;

/// Whether an origin, as a browser sends it, is in a list that check_origins() accepts.
/// Complexity: O(origins); allocates nothing.
bool contains_origin(std::span<const std::string> origins, std::string_view origin) noexcept;

}  // namespace gyre::http::detail
