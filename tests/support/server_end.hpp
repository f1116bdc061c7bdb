// SPDX-License-Identifier: Apache-2.0
// wait_for_server_end: waits until a server of a test has ended, and clients on the loop know it.
#pragma once

#include <gyre/io/process.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>

#include <chrono>

namespace gyre::test {

/// Waits for the end of a server, and until clients on the loop have seen their connections end.
/// The connections end before the process, but a turn of the loop may begin with the process; if
/// another server is ready before the next turn, a test would call it by a connection to the old.
inline task<> wait_for_server_end(io::process& server) {
  co_await server.wait();
  // The second begins when the turn in which the first ended has handled all that was ready.
  co_await sleep_for(std::chrono::milliseconds{1});
  co_await sleep_for(std::chrono::milliseconds{1});
}

}  // namespace gyre::test
