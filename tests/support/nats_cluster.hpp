// SPDX-License-Identifier: Apache-2.0
// Support for tests: a cluster of three NATS servers with JetStream.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/file_watcher.hpp>
#include <gyre/io/process.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/temporary_folder.hpp>

#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::test {

/// Runs three nats-servers, n0 to n2, which know each other. Servers of a cluster with JetStream
/// must know all ports beforehand, so they listen on a loopback address of this process alone: no
/// other process can have one of its ports.
///
/// Thread-safety, Lifetime: as io::process; the constructor runs the loop.
class nats_cluster {
 public:
  static constexpr std::size_t size = 3;

  explicit nats_cluster(event_loop& loop) : loop_(loop) {
    for (std::size_t each = 0; each < size; ++each) {
      folder_.make_file(name_of(each) + ".conf", settings_of(each));
    }
    sync_wait(loop, with_timeout(start_all(), std::chrono::minutes{2}));
  }

  /// The addresses of all servers, without a scheme.
  std::vector<std::string> addresses() const {
    std::vector<std::string> all;
    for (std::size_t each = 0; each < size; ++each) {
      all.push_back(host_ + ':' + std::to_string(client_port + each));
    }
    return all;
  }
  /// The number of the server of this name.
  std::size_t index_of(std::string_view name) const {
    for (std::size_t each = 0; each < size; ++each) {
      if (name == name_of(each)) return each;
    }
    throw std::runtime_error("no server is named '" + std::string(name) + "'");
  }

  /// Kills a server (SIGKILL).
  task<> kill(std::size_t index) {
    processes_.at(index)->kill(SIGKILL);
    co_await processes_.at(index)->wait();
  }
  /// Starts it again after kill(), with its files.
  task<> start_again(std::size_t index) {
    processes_.at(index).reset();
    std::filesystem::remove(folder_ / (name_of(index) + ".log"));
    co_await start(index);
  }

 private:
  static constexpr const char* program = GYRE_TEST_PROGRAMS "/nats-server";
  static constexpr std::size_t client_port = 4222;
  static constexpr std::size_t cluster_port = 6222;

  static std::string name_of(std::size_t index) { return 'n' + std::to_string(index); }
  static std::string address_of_process() {
    const auto id = static_cast<unsigned>(::getpid());
    return "127." + std::to_string(1 + (id >> 16 & 63)) + '.' + std::to_string(id >> 8 & 255) +
           '.' + std::to_string(id & 255);
  }
  std::string settings_of(std::size_t index) const {
    std::string routes;
    for (std::size_t each = 0; each < size; ++each) {
      routes += routes.empty() ? "" : ", ";
      routes += "\"nats://" + host_ + ':' + std::to_string(cluster_port + each) + '"';
    }
    return "server_name: " + name_of(index) + "\nlisten: \"" + host_ + ':' +
           std::to_string(client_port + index) + "\"\njetstream { store_dir: \"" + folder_.path() +
           '/' + name_of(index) + "\" }\ncluster { name: c, listen: \"" + host_ + ':' +
           std::to_string(cluster_port + index) + "\", routes: [" + routes + "] }\nlog_file: \"" +
           folder_.path() + '/' + name_of(index) + ".log\"\n";
  }

  task<> start_all() {
    if (!std::filesystem::exists(program)) {
      throw std::runtime_error(std::string(program) + " is missing: run tools/setup test");
    }
    for (std::size_t each = 0; each < size; ++each) co_await start(each);
  }
  task<> start(std::size_t index) {
    io::file_watcher watcher(loop_);
    watcher.add(folder_.path(), {.changes = io::file_change::created | io::file_change::modified});
    const std::vector<std::string> command = {program, "-c", folder_ / (name_of(index) + ".conf")};
    processes_.at(index).emplace(
        loop_, command,
        io::process_options{
            .input = io::stdio::null(), .output = io::stdio::null(), .error = io::stdio::null()});
    auto first = when_any(wait_until_ready(index, watcher), wait_for_end(index));
    const auto result = co_await std::move(first);
    if (result.index == 0) co_return;
    throw std::runtime_error("nats-server does not start: " +
                             folder_.content(name_of(index) + ".log"));
  }
  task<int> wait_until_ready(std::size_t index, io::file_watcher& watcher) {
    const std::string log = name_of(index) + ".log";
    while (!folder_.has(log) || folder_.content(log).find("Server is ready") == std::string::npos) {
      co_await watcher.next();
    }
    co_return 0;
  }
  task<int> wait_for_end(std::size_t index) {
    co_await processes_.at(index)->wait();
    co_return 0;
  }

  event_loop& loop_;
  const std::string host_ = address_of_process();
  temporary_folder folder_;
  std::array<std::optional<io::process>, size> processes_;
};

}  // namespace gyre::test
