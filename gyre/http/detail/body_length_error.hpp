// SPDX-License-Identifier: Apache-2.0
// too_long_body, too_short_body: the errors of a streamed body of another length than announced.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace gyre::http::detail {

/// Returns the error of a write that exceeds the announced length.
std::length_error too_long_body();
/// Returns the error of a body that ended `missing_bytes` bytes before its announced length.
std::length_error too_short_body(std::uint64_t missing_bytes);

}  // namespace gyre::http::detail
