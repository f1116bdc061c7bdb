// SPDX-License-Identifier: Apache-2.0
// Sockets on the loopback interface, as all contenders of the network experiments get them:
// connected, non-blocking, without Nagle's delay, the kernel's own buffer sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lab::network {

/// What a system call returned; throws std::system_error naming `what` when that is -1.
int checked(int returned, const char* what);

/// Lets the process open as many files as the machine allows it to. Throws cannot_run when those
/// are fewer than `needed`.
void raise_descriptor_limit(std::size_t needed);

/// A listening socket on a free port of 127.0.0.1, backlog 4096. It blocks.
int listen_on_loopback();

/// Lets calls on the descriptor return EAGAIN instead of waiting.
void set_non_blocking(int fd);

/// The port that a socket is bound to.
std::uint16_t port_of(int socket);

/// Accepts `count` connections and makes them non-blocking.
std::vector<int> accept_all(int listener, std::size_t count);

/// Begins to connect to that port of 127.0.0.1, non-blocking: writable means connected. `index`, a
/// number that rises, chooses the source address from 127.0.0.1 on, so that ports do not run out.
int begin_connect(std::uint16_t port, std::size_t index);

/// Makes `count` connections. They are reset when they are closed, so they leave no ports behind
/// that cannot be used again for a while.
std::vector<int> connect_all(std::uint16_t port, std::size_t count);

}  // namespace lab::network
