// SPDX-License-Identifier: Apache-2.0
// is_nested_deeply: whether a JSON text needs far more memory than its size.
#pragma once

#include <string_view>

namespace gyre::nats::detail {

/// Whether arrays and objects are nested above 32 levels, far more than the protocols of NATS have.
/// A level may be one byte of the text, but is some hundred bytes once it is parsed.
bool is_nested_deeply(std::string_view json) noexcept;

}  // namespace gyre::nats::detail
