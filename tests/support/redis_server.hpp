// SPDX-License-Identifier: Apache-2.0
// Support for tests: a Redis server of their own.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/process.hpp>
#include <gyre/task/task.hpp>
#include <tests/support/temporary_folder.hpp>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gyre::test {

/// Runs redis-server, which tools/setup installs, with an empty database. It listens on a Unix
/// socket in a temporary folder, and ends with the object.
///
/// Thread-safety, Lifetime: as io::process; the constructor and restart() run the loop.
class redis_server {
 public:
  explicit redis_server(event_loop& loop, std::vector<std::string> settings = {})
      : loop_(loop), settings_(std::move(settings)) {
    start();
  }

  std::string address() const { return "unix:" + socket(); }
  std::string socket() const { return folder_.path() + "/redis.sock"; }

  /// Kills it (SIGKILL).
  task<> kill() {
    process_->kill(SIGKILL);
    co_await process_->wait();
  }
  /// Starts it again after kill(), without the data.
  task<> start_again() {
    process_.reset();
    co_await begin();
  }
  /// Lets it answer no more, and resume() answer what has come since.
  void pause() { process_->kill(SIGSTOP); }
  void resume() { process_->kill(SIGCONT); }

 private:
  void start() { sync_wait(loop_, begin()); }
  task<> begin() {
    std::vector<std::string> command = {"redis-server", "--port",      "0", "--unixsocket",
                                        socket(),       "--save",      "",  "--dir",
                                        folder_.path(), "--daemonize", "no"};
    command.insert(command.end(), settings_.begin(), settings_.end());
    process_.emplace(loop_, command,
                     io::process_options{.input = io::stdio::null(), .output = io::stdio::pipe()});
    io::buffer log;
    const char* const ready = "Ready to accept connections";
    co_await process_->output().read_until(log, ready);
  }

  event_loop& loop_;
  const std::vector<std::string> settings_;
  temporary_folder folder_;
  std::optional<io::process> process_;
};

}  // namespace gyre::test
