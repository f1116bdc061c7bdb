// SPDX-License-Identifier: Apache-2.0
// content_coding: compressions of bodies, and their negotiation by the header Accept-Encoding.
//
//     using gyre::http::content_coding;
//     auto coding = gyre::http::negotiate_coding("gzip, br;q=0.9, *;q=0");  // gzip
//     if (!coding) co_return not_acceptable();  // not even identity is accepted
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace gyre::http {

/// A coding of bodies (RFC 9110, 8.4.1; RFC 7932; RFC 8878).
enum class content_coding : std::uint8_t {
  identity,  ///< no compression
  gzip,
  zstd,
  br,  ///< Brotli
};

/// The name of the coding in a header, such as "gzip".
[[nodiscard]] constexpr std::string_view to_text(content_coding coding) noexcept {
  switch (coding) {
    case content_coding::identity: return "identity";
    case content_coding::gzip: return "gzip";
    case content_coding::zstd: return "zstd";
    case content_coding::br: return "br";
  }
  return {};
}

/// The coding with this name, in any case; "x-gzip" is gzip. Nothing for unknown names.
[[nodiscard]] std::optional<content_coding> content_coding_of(std::string_view name) noexcept;

/// The codings that gyre can pack and unpack, the preferred one first.
inline constexpr std::array<content_coding, 3> all_codings{content_coding::br, content_coding::zstd,
                                                           content_coding::gzip};

/// Returns the offered coding, or identity, to which the client gives the highest quality value.
/// Among equal qualities the order is br, zstd, gzip, identity. If the client does not list
/// identity, it is the last choice. Nothing if the client excludes all of them, to which a server
/// may respond with 406, or ignore the header.
///
/// `accept_encoding`: the header's value; join several headers by ", ". Without the header pass "",
/// which chooses identity. A malformed value is treated as "".
/// Complexity: linear; allocates nothing.
[[nodiscard]] std::optional<content_coding> negotiate_coding(
    std::string_view accept_encoding,
    std::span<const content_coding> codings = all_codings) noexcept;

}  // namespace gyre::http
