// SPDX-License-Identifier: Apache-2.0
// server_time: a point in time by the clock of a server.
#pragma once

#include <chrono>

namespace gyre::nats {

/// A time of day, in nanoseconds since 1970. A std::chrono::system_clock::time_point converts.
using server_time = std::chrono::sys_time<std::chrono::nanoseconds>;

}  // namespace gyre::nats
