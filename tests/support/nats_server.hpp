// SPDX-License-Identifier: Apache-2.0
// Support for tests: a NATS server of their own.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/file_watcher.hpp>
#include <gyre/io/process.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_any.hpp>
#include <tests/support/server_end.hpp>
#include <tests/support/temporary_folder.hpp>

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::test {

/// Runs nats-server, which tools/setup installs into .venv. It listens on a port of 127.0.0.1 that
/// the kernel chooses, and ends with the object.
///
/// Thread-safety, Lifetime: as io::process; the constructor runs the loop.
class nats_server {
 public:
  /// `settings`: lines of the file of its configuration.
  explicit nats_server(event_loop& loop, const std::string& settings = "")
      : nats_server(not_started(), loop, settings) {
    sync_wait(loop, begin());
  }
  /// Starts one within a coroutine of the loop.
  static task<std::unique_ptr<nats_server>> start(event_loop& loop, std::string settings = "") {
    auto made = std::make_unique<nats_server>(not_started(), loop, settings);
    co_await made->begin();
    co_return made;
  }
  struct not_started {};
  nats_server(not_started, event_loop& loop, const std::string& settings) : loop_(loop) {
    folder_.make_file("settings", settings);
  }

  /// The address without a scheme.
  std::string address() const { return "127.0.0.1:" + port_; }
  const std::string& port() const noexcept { return port_; }
  /// The address for the routes of other servers.
  std::string cluster_address() const { return "127.0.0.1:" + cluster_port_; }
  const temporary_folder& files() const noexcept { return folder_; }

  void signal(int number) { process_->kill(number); }
  /// Kills it (SIGKILL).
  task<> kill() {
    process_->kill(SIGKILL);
    co_await wait_for_server_end(*process_);
  }
  /// Lets it store what it knows, and end (SIGTERM).
  task<> stop() {
    process_->kill(SIGTERM);
    co_await wait_for_server_end(*process_);
  }
  /// Starts it again after kill() or stop(), on the same port.
  task<> start_again() {
    process_.reset();
    co_await begin();
  }
  /// Lets it answer no more, and resume() answer what has come since. Blocks until its threads have
  /// stopped.
  void pause() {
    process_->kill(SIGSTOP);
    ::siginfo_t state{};
    ::waitid(P_PID, static_cast<::id_t>(process_->pid()), &state, WSTOPPED);
  }
  void resume() { process_->kill(SIGCONT); }

 private:
  static constexpr const char* program = GYRE_TEST_PROGRAMS "/nats-server";

  task<> begin() {
    if (!std::filesystem::exists(program)) {
      throw std::runtime_error(std::string(program) + " is missing: run tools/setup test");
    }
    // Another program may have the port for a moment, so the server is tried more than once.
    constexpr int attempts = 20;
    for (int attempt = 0; attempt < attempts; ++attempt) {
      const bool is_ready = co_await try_begin();
      if (is_ready) co_return;
    }
    throw std::runtime_error("nats-server does not start: " + folder_.content("log"));
  }

  task<bool> try_begin() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_ / "ports", ignored);
    folder_.make_folder("ports");
    io::file_watcher watcher(loop_);
    watcher.add(folder_ / "ports", {.changes = io::file_change::closed_after_write});
    // The server ends with this program, even if that crashes.
    const std::vector<std::string> command = {"setpriv",
                                              "--pdeathsig",
                                              "KILL",
                                              program,
                                              "-c",
                                              folder_ / "settings",
                                              "-a",
                                              "127.0.0.1",
                                              "-p",
                                              port_.empty() ? "-1" : port_,
                                              "-l",
                                              folder_ / "log",
                                              "--ports_file_dir",
                                              folder_ / "ports"};
    process_.emplace(
        loop_, command,
        io::process_options{
            .input = io::stdio::null(), .output = io::stdio::null(), .error = io::stdio::null()});
    auto first = when_any(wait_for_ports(watcher), wait_for_end());
    const auto result = co_await std::move(first);
    co_return result.index == 0;
  }

  task<bool> wait_for_ports(io::file_watcher& watcher) {
    for (;;) {
      const std::string file =
          "ports/" + std::string("nats-server_") + std::to_string(process_->pid()) + ".ports";
      const std::string text = folder_.has(file) ? folder_.content(file) : "";
      if (text.find('}') != std::string::npos) {
        port_ = port_after(text, "\"nats\"");
        cluster_port_ = port_after(text, "\"cluster\"");
        co_return true;
      }
      co_await watcher.next();
    }
  }
  task<int> wait_for_end() {
    co_await process_->wait();
    co_return 0;
  }

  // The port in the first URL after the name.
  static std::string port_after(std::string_view text, std::string_view name) {
    constexpr std::string_view host = "127.0.0.1:";
    const std::size_t begin = text.find(host, std::min(text.find(name), text.size()));
    if (begin == std::string_view::npos) return "";
    const std::string_view rest = text.substr(begin + host.size());
    return std::string(rest.substr(0, rest.find_first_not_of("0123456789")));
  }

  event_loop& loop_;
  temporary_folder folder_;
  std::string port_;
  std::string cluster_port_;
  std::optional<io::process> process_;
};

}  // namespace gyre::test
