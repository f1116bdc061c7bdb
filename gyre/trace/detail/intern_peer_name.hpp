// SPDX-License-Identifier: Apache-2.0
// intern_peer_name: stores names that may come from peers.
#pragma once

#include <gyre/trace/label.hpp>

#include <string_view>

namespace gyre::trace::detail {

/// Like intern(), but stores at most half of max_interned_bytes, so that the names of peers leave
/// room for those of the program.
label intern_peer_name(std::string_view text) noexcept;

}  // namespace gyre::trace::detail
