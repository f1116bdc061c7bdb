// SPDX-License-Identifier: Apache-2.0
// has_http2: whether this build of the library speaks HTTP/2.
#pragma once

#ifndef GYRE_HAS_NGHTTP2
#define GYRE_HAS_NGHTTP2 0
#endif

namespace gyre::http::detail {

/// Whether this build of the library speaks HTTP/2.
inline constexpr bool has_http2 = GYRE_HAS_NGHTTP2 != 0;

}  // namespace gyre::http::detail
