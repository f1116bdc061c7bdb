// SPDX-License-Identifier: Apache-2.0
// read_peer_failure: the reason why a peer has closed, from a transport's message such as a TLS
// alert.
#pragma once

#include <gyre/net/layer.hpp>

#include <system_error>

namespace gyre::net::detail {

/// Returns the error of a connection on which sending has failed with `sending_error`: the peer's
/// last message says more than a connection reset. Reads and drops the bytes that are left in the
/// kernel, at most 256 KiB, without waiting.
std::error_code read_peer_failure(int fd, layer& protocol, std::error_code sending_error) noexcept;

}  // namespace gyre::net::detail
