// SPDX-License-Identifier: Apache-2.0
// Sockets on the loopback interface for all contenders of the network experiments: connected,
// non-blocking, without Nagle's delay, with the kernel's default buffer sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lab::network {

/// Returns the result of a system call.
/// Errors: throws std::system_error with the name `call` when the result is -1.
int checked(int result, const char* call);

/// Raises the limit of open files to the maximum that the machine allows.
/// Errors: throws cannot_run when the maximum is below `needed`.
void raise_descriptor_limit(std::size_t needed);

/// A listening socket on a free port of 127.0.0.1, backlog 4096. It blocks.
int listen_on_loopback();

/// Makes the descriptor non-blocking: calls return EAGAIN instead of waiting.
void set_non_blocking(int fd);

/// Switches Nagle's delay off, also for the connections that a listening socket accepts.
void disable_delay(int socket);

/// The port that a socket is bound to.
std::uint16_t port_of(int socket);

/// Accepts `count` connections and makes them non-blocking.
std::vector<int> accept_all(int listener, std::size_t count);

/// Begins a non-blocking connect to `port` of 127.0.0.1: writable means connected. `index`, a
/// number that rises, chooses the source address from 127.0.0.1 on, so that ports do not run out.
int begin_connect(std::uint16_t port, std::size_t index);

/// Makes `count` connections. Closing resets them, so that no port stays in TIME_WAIT.
std::vector<int> connect_all(std::uint16_t port, std::size_t count);

}  // namespace lab::network
