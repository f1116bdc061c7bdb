// SPDX-License-Identifier: Apache-2.0
// set_recording, set_ring_size: the settings of the flight recorder, which keeps the latest events
// of every thread: what it ran, for how long, and where it waited.
//
//     gyre::trace::set_recording(false);
#pragma once

#include <cstddef>

namespace gyre::trace {

/// The default of set_ring_size(), in bytes.
inline constexpr std::size_t default_ring_size = std::size_t{256} << 10;

/// Switches the flight recorder on or off. On by default, unless the environment has GYRE_TRACE=off
/// when the first thread begins to record. Events that were recorded stay until they are
/// overwritten.
///
/// Thread-safety: any thread; other threads follow soon.
/// Complexity: see docs/design/trace.md. While on, an event takes some 10 to 20 ns. While off, one
/// load.
void set_recording(bool is_enabled) noexcept;

/// Returns whether events are recorded; always false in a build with GYRE_TRACE=OFF.
[[nodiscard]] bool is_recording() noexcept;

/// Sets the memory for events of each thread that records its first event from then on, in bytes:
/// a power of two from 4 KiB to 1 GiB. Half of it is for events of at least 1 ms. A thread that
/// ends leaves its memory to a later thread.
///
/// Thread-safety: any thread.
/// Errors: std::invalid_argument for another number.
void set_ring_size(std::size_t bytes);

}  // namespace gyre::trace
