// SPDX-License-Identifier: Apache-2.0
// The common parts of the engines' processes: waiting until one is ready, its end, and a bare
// connection to it.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace lab::engines {

/// A blocking connection, with which the lab itself speaks to an engine before the measurement.
class bare_connection {
 public:
  /// Connects to a Unix socket.
  /// Errors: throws std::system_error.
  static bare_connection to_unix(const std::string& path);
  /// Connects to a port of 127.0.0.1.
  static bare_connection to_port(std::uint16_t port);

  bare_connection(bare_connection&& other) noexcept;
  bare_connection& operator=(bare_connection&&) = delete;
  ~bare_connection();

  /// Sends all bytes. Errors: throws std::system_error.
  void send(std::string_view bytes);
  /// Waits for bytes, and appends them to `bytes`.
  /// Errors: throws std::runtime_error when the engine ends the connection.
  void receive(std::string& bytes);
  /// Receives the next `count` bytes.
  std::string receive_exactly(std::size_t count);
  /// Receives up to the end of a line, which it drops.
  std::string receive_line();

 private:
  explicit bare_connection(int fd) : fd_(fd) {}

  int fd_;
  std::string received_;
};

/// Calls `attempt` until it does not throw.
/// Errors: throws cannot_run when the program is not installed, and std::runtime_error, with the
/// end of the file `log`, when the process ends or is not ready after 30 seconds.
void await_ready(pid_t process, const std::string& program, const std::string& log,
                 const std::function<void()>& attempt);

/// Ends a process by this signal, and waits for its end.
void end_process(pid_t process, int signal = SIGKILL);

}  // namespace lab::engines
