// SPDX-License-Identifier: Apache-2.0
// intern_peer_name: stores names that may come from peers, or be long, such as statements.
#pragma once

#include <gyre/trace/label.hpp>

#include <cstddef>
#include <string_view>

namespace gyre::trace::detail {

/// The most bytes of a name that intern_peer_name() stores, without the "..." after a longer one.
inline constexpr std::size_t max_peer_name = 120;

/// Like intern(), but makes the text one short line, and stores at most half of
/// max_interned_bytes, so that the names of peers leave room for those of the program.
label intern_peer_name(std::string_view text) noexcept;

}  // namespace gyre::trace::detail
