// SPDX-License-Identifier: Apache-2.0
// Support for tests: a Redis server of their own.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/process.hpp>
#include <gyre/task/task.hpp>
#include <tests/support/server_end.hpp>
#include <tests/support/temporary_folder.hpp>

#include <array>
#include <csignal>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gyre::test {

/// Runs redis-server, which tools/setup installs, with an empty database. It listens on a Unix
/// socket in a temporary folder, and ends with the object, or with the test's process.
///
/// Thread-safety, Lifetime: as io::process; the constructor runs the loop.
/// Errors: std::runtime_error with the server's own words, if it does not start.
class redis_server {
 public:
  /// `settings`: further arguments of redis-server.
  explicit redis_server(event_loop& loop, std::vector<std::string> settings = {})
      : loop_(loop), settings_(std::move(settings)) {
    sync_wait(loop_, start());
  }

  std::string address() const { return "unix:" + socket(); }
  std::string socket() const { return folder_ / "redis.sock"; }

  /// Kills it (SIGKILL).
  task<> kill() {
    process_->kill(SIGKILL);
    co_await wait_for_server_end(*process_);
  }
  /// Starts it again after kill(), without the data.
  task<> start_again() {
    process_.reset();
    co_await start();
  }
  /// Stops it (SIGSTOP): it answers nothing until resume(), and then what has come since.
  void pause() { process_->kill(SIGSTOP); }
  void resume() { process_->kill(SIGCONT); }

 private:
  task<> start() {
    // setpriv lets the server end with the thread that started it, even if that is killed.
    std::vector<std::string> command = {"setpriv",      "--pdeathsig",
                                        "KILL",         "redis-server",
                                        "--port",       "0",
                                        "--unixsocket", socket(),
                                        "--save",       "",
                                        "--dir",        folder_.path(),
                                        "--daemonize",  "no"};
    command.insert(command.end(), settings_.begin(), settings_.end());
    process_.emplace(loop_, command,
                     io::process_options{.input = io::stdio::null(),
                                         .output = io::stdio::pipe(),
                                         .error = io::stdio::with_output()});
    // The last line of its log once it listens.
    std::string log;
    while (!log.contains("ready to accept connections at")) {
      std::array<char, 4096> room;
      const std::span<char> space(room);
      const std::size_t count =
          co_await process_->output().read_some(std::as_writable_bytes(space));
      log.append(room.data(), count);
      if (count > 0) continue;
      throw std::runtime_error("redis-server has ended; if it is missing, run tools/setup test: " +
                               log);
    }
  }

  event_loop& loop_;
  const std::vector<std::string> settings_;
  temporary_folder folder_;
  std::optional<io::process> process_;
};

}  // namespace gyre::test
