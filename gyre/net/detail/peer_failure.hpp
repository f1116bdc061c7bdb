// SPDX-License-Identifier: Apache-2.0
// read_peer_failure: why a peer has gone, by a transport's message such as a TLS alert.
#pragma once

#include <gyre/net/layer.hpp>

#include <system_error>

namespace gyre::net::detail {

/// The error of a connection on which sending has failed with `sending_failed`: what the peer has
/// sent before it went says more than a connection reset. Reads and drops what is left in the
/// kernel, 256 KiB at most, without waiting.
std::error_code read_peer_failure(int fd, layer& protocol, std::error_code sending_failed) noexcept;

}  // namespace gyre::net::detail
