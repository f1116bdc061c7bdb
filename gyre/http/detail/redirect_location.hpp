// SPDX-License-Identifier: Apache-2.0
// redirect_reference: reads a value of the field Location as browsers and curl do.
#pragma once

#include <string>
#include <string_view>

namespace gyre::http::detail {

/// Returns `location` as a URL reference. Percent-encodes characters of its path, query and
/// fragment that servers often do not encode: blanks, '|', '[', '"', '\', UTF-8, and a '%' without
/// two digits. Leaves the scheme and the server unchanged, so that url::resolve() refuses such
/// characters there.
///
/// `fragment`: the fragment of the URL that was redirected, which the result inherits unless it has
/// its own (RFC 9110, 10.2.2). An empty one is not added.
std::string redirect_reference(std::string_view location, std::string_view fragment);

}  // namespace gyre::http::detail
