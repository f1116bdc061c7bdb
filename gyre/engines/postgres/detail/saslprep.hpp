// SPDX-License-Identifier: Apache-2.0
// saslprep: prepares a password for SCRAM (RFC 4013), in part.
#pragma once

#include <string>
#include <string_view>

namespace gyre::postgres::detail {

/// Maps the spaces beyond ASCII to ' ', and drops the characters that RFC 3454, B.1 maps to
/// nothing. It does not normalise (NFKC), which needs the tables of Unicode: a password beyond
/// ASCII must be in that form already, as keyboards give it. A text that is not UTF-8 remains as it
/// is, which is how the server treats it.
std::string saslprep(std::string_view password);

}  // namespace gyre::postgres::detail
