// SPDX-License-Identifier: Apache-2.0
// max_copied: the size up to which bodies and messages are copied behind their head.
#pragma once

#include <cstddef>

namespace gyre::http::detail {

/// Larger bodies and messages are sent from where they are: a copy then costs more than another
/// piece of a gathering write.
inline constexpr std::size_t max_copied = std::size_t{4} << 10;

}  // namespace gyre::http::detail
