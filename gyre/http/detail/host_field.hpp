// SPDX-License-Identifier: Apache-2.0
// Values of Host, and authorities of request targets: a host and perhaps a port, nothing else.
//
//     is_host_field("example.org:8080");     // true
//     is_host_field("user@example.org");     // false: an http URI has no user (RFC 9110 4.2.4)
#pragma once

#include <string_view>

namespace gyre::http::detail {

/// Whether `text` is uri-host [ ":" [ port ] ] with a host that is not empty (RFC 9110 7.2).
/// Addresses of IPv6 have brackets and no zone; IPvFuture is refused, as nothing uses it.
[[nodiscard]] bool is_host_field(std::string_view text) noexcept;

/// The host of such a text, without the port; addresses of IPv6 keep their brackets.
[[nodiscard]] std::string_view host_of(std::string_view text) noexcept;

/// Whether `text` is uri-host ":" port, as CONNECT has it (RFC 9112 3.2.3).
[[nodiscard]] bool is_authority_form(std::string_view text) noexcept;

}  // namespace gyre::http::detail
