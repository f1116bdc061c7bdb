// SPDX-License-Identifier: Apache-2.0
// The server's side of a run is a process of its own: the contender's program, started once more by
// the one that is the client. The two talk over a control socket.
#pragma once

#include <lab/harness/network/crew.hpp>
#include <lab/harness/network/socket.hpp>

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <type_traits>
#include <vector>

namespace lab::network {

/// What the server is told to do.
struct server_plan {
  std::uint32_t connections = 0;
  std::uint32_t threads = 1;
};

/// What the server has used so far.
struct usage {
  double cpu_seconds = 0;
  std::uint64_t memory_bytes = 0;  ///< resident now
  std::uint64_t peak_memory_bytes = 0;
  std::uint64_t bytes = 0;  ///< received
  std::uint64_t reads = 0;
};

/// One end of the control socket: whole values go to and fro.
class control {
 public:
  explicit control(int fd) : fd_(fd) {}

  template <class Value>
    requires std::is_trivially_copyable_v<Value>
  void send(const Value& value) {
    send_bytes(&value, sizeof value);
  }

  /// Waits for a value; throws std::runtime_error when the other side is gone.
  template <class Value>
    requires std::is_trivially_copyable_v<Value>
  Value receive() {
    Value value{};
    receive_bytes(&value, sizeof value);
    return value;
  }

 private:
  void send_bytes(const void* data, std::size_t size);
  void receive_bytes(void* data, std::size_t size);

  int fd_;
};

/// The CPUs of either side.
struct sides {
  std::vector<unsigned> server;
  std::vector<unsigned> client;
};

/// The first half of the CPUs, rounded down, is the server's, the rest the client's; one that is
/// alone is for both.
sides split(const std::vector<unsigned>& cpus);

/// The client's view of the server, which ends with this object and with the client's process.
class server_process {
 public:
  /// Starts the server, on these CPUs if any are named; it listens when this returns. Only while
  /// the process has one thread.
  server_process(const server_plan& plan, const std::vector<unsigned>& cpus);

  server_process(const server_process&) = delete;
  server_process& operator=(const server_process&) = delete;
  ~server_process();

  std::uint16_t port() const { return port_; }

  /// Waits until the server has all its connections and serves them.
  void await_serving() { control_.receive<serving>(); }

  usage used() {
    control_.send(query{});
    return control_.receive<usage>();
  }

 private:
  friend class server_side;

  struct serving {};
  struct query {};

  pid_t child_ = -1;
  control control_{-1};
  std::uint16_t port_ = 0;
};

/// The server's view of itself, in its own process.
class server_side {
 public:
  /// Whether the program was started as a server.
  static bool is_asked_for(int argc, const char* const* argv);

  explicit server_side(const char* const* argv);

  const server_plan& plan() const { return plan_; }

  /// Listens, tells the client where, and returns the socket.
  int listen();

  /// Tells the client that all is set up and answers its questions until it is gone, which ends
  /// the process. `complete` adds to a usage what only the caller knows.
  template <class Complete>
  [[noreturn]] void serve(Complete complete) {
    control_.send(server_process::serving{});
    while (asked()) {
      usage now = used_by_process();
      complete(now);
      control_.send(now);
    }
    std::_Exit(0);
  }

 private:
  bool asked();
  static usage used_by_process();

  control control_;
  server_plan plan_;
};

/// The main() of a server whose connections are accepted here and dealt out to threads.
template <class Contender, any_session Session>
[[noreturn]] void serve_sessions(const char* const* argv) {
  server_side side(argv);
  const int listener = side.listen();
  const std::vector<int> accepted = accept_all(listener, side.plan().connections);
  auto& sessions = crew<Session>::make(accepted, side.plan().threads, side.plan());
  sessions.template start<Contender>();
  side.serve([&sessions](usage& now) {
    now.bytes = sessions.sum(&tally::bytes);
    now.reads = sessions.sum(&tally::reads);
  });
}

}  // namespace lab::network
