// SPDX-License-Identifier: Apache-2.0
// content_coding: compressions of bodies, and the choice among them by a header Accept-Encoding.
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
  identity,  ///< none
  gzip,
  zstd,
  br,  ///< Brotli
};

/// As it stands in a header: "gzip".
[[nodiscard]] constexpr std::string_view to_text(content_coding coding) noexcept {
  switch (coding) {
    case content_coding::identity: return "identity";
    case content_coding::gzip: return "gzip";
    case content_coding::zstd: return "zstd";
    case content_coding::br: return "br";
  }
  return {};
}

/// The coding of that name, in any case; "x-gzip" is gzip. Nothing for others.
[[nodiscard]] std::optional<content_coding> content_coding_of(std::string_view name) noexcept;

inline constexpr std::array<content_coding, 3> all_codings{content_coding::br, content_coding::zstd,
                                                           content_coding::gzip};

/// The best of the offered codings for a client, or identity: the one of the highest quality value,
/// among equals br before zstd before gzip before identity. Identity, unless the client lists it,
/// is the last choice. Nothing if the client excludes all of them, which a server may answer with
/// 406 or ignore.
///
/// `accept_encoding`: the header's value; several headers are joined by ", ". Without the header
/// pass "", which chooses identity. A malformed value is ignored as if it were "".
/// Complexity: linear; allocates nothing.
[[nodiscard]] std::optional<content_coding> negotiate_coding(
    std::string_view accept_encoding,
    std::span<const content_coding> offered = all_codings) noexcept;

}  // namespace gyre::http
