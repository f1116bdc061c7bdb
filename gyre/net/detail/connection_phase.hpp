// SPDX-License-Identifier: Apache-2.0
// connection_phase: the states of a connection, and the calls that its loop has still to make.
#pragma once

#include <gyre/base/detail/flag_set.hpp>

#include <cstdint>

namespace gyre::net::detail {

/// The phases of a connection. docs/design/connections.md has the drawing.
///
/// | phase     | begins                         | sends | receives | ends                         |
/// |-----------|--------------------------------|-------|----------|------------------------------|
/// | opening   | the socket is connected        | layer | layer    | open; failure: ended         |
/// | open      | the layers are established     | yes   | yes      | any of those below           |
/// | failed    | sending fails; reading may not | no    | yes      | the peer's end, or a timeout |
/// | flushing  | close() with waiting output    | rest  | drops    | lingering                    |
/// | lingering | output and FIN are sent        | no    | drops    | the peer's end, or a timeout |
/// | ended     | the descriptor is closed       | no    | no       | on_close, in a later turn    |
///
/// A connection that is opening belongs to a layer_opening, so that it costs no connection memory;
/// its connection_io begins with `open`.
enum class connection_phase : std::uint8_t { open, failed, flushing, lingering, ended };

/// The kinds of a connection's end: the socket is closed normally, or with a RST.
enum class connection_end : bool { in_order, reset };

/// Calls that a connection's loop has still to make, in a turn of their own.
enum class due_call : std::uint8_t {
  write_complete = 1,
  high_water = 2,
  low_water = 4,
  message = 8,    // delivers unconsumed input; then the connection receives
  readable = 16,  // receives: the kernel has already reported input
};
using due_calls = gyre::detail::flag_set<due_call>;

}  // namespace gyre::net::detail
