// SPDX-License-Identifier: Apache-2.0
// spare_buffers: memory that the WebSockets of a thread share, because most of them are idle.
//
//     take_spare_buffer(message);
//     message.append(bytes);
//     …
//     keep_spare_buffer(message);
#pragma once

#include <gyre/io/buffer.hpp>

namespace gyre::http::detail {

/// Gives `buffer` the memory of a spare buffer of the calling thread, if it has no memory, and if
/// there is one.
void take_spare_buffer(io::buffer& buffer) noexcept;
/// Drops the bytes of `buffer`, and keeps its memory as a spare buffer, unless it is large or the
/// thread has enough. `buffer` has no memory afterwards.
void keep_spare_buffer(io::buffer& buffer) noexcept;

}  // namespace gyre::http::detail
