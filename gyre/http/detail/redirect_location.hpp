// SPDX-License-Identifier: Apache-2.0
// redirect_location: a value of the field Location as browsers and curl read it.
#pragma once

#include <string>
#include <string_view>

namespace gyre::http::detail {

/// `location`, with characters of its path, query and fragment percent-encoded that must be, but
/// that servers leave as they are: blanks, '|', '[', '"', '\', UTF-8, and a '%' without two digits.
/// The scheme and the server stay as they are, so that url::resolve() refuses them there.
///
/// `fragment`: of the URL that was redirected, which the new one inherits unless it has one of its
/// own (RFC 9110, 10.2.2); empty: none.
std::string redirect_reference(std::string_view location, std::string_view fragment);

}  // namespace gyre::http::detail
