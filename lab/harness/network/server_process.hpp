// SPDX-License-Identifier: Apache-2.0
// The server process of a run: the contender's program, started a second time by the client
// process. The two processes talk over a control socket.
#pragma once

#include <lab/harness/network/session_threads.hpp>
#include <lab/harness/network/socket.hpp>

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <type_traits>
#include <vector>

namespace lab::network {

/// The client's instructions to the server.
struct server_plan {
  std::uint32_t connections = 0;
  std::uint32_t threads = 1;
};

/// The resources that the server has used so far.
struct usage {
  double cpu_seconds = 0;
  std::uint64_t memory_bytes = 0;  ///< resident now
  std::uint64_t peak_memory_bytes = 0;
  std::uint64_t bytes = 0;  ///< received
  std::uint64_t reads = 0;
  std::optional<std::uint64_t> allocations = std::nullopt;  ///< where they are counted
};

/// One end of the control socket, which sends and receives whole values.
class control {
 public:
  explicit control(int fd) : fd_(fd) {}

  template <class Value>
    requires std::is_trivially_copyable_v<Value>
  void send(const Value& value) {
    send_bytes(&value, sizeof value);
  }

  /// Waits for a value; throws std::runtime_error when the other process has ended.
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

/// The CPUs of the two processes.
struct side_cpus {
  std::vector<unsigned> server;
  std::vector<unsigned> client;
};

/// Gives the first half of the CPUs, rounded down, to the server and the rest to the client; a
/// single CPU is for both.
side_cpus split_cpus(const std::vector<unsigned>& cpus);

/// The client's handle of the server. The server ends with this object and with the client process.
class server_process {
 public:
  /// Starts the server, on these CPUs unless the list is empty; the server listens when this
  /// returns. Only while the process has one thread.
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

/// The server's end of the control socket, in the server process.
class server_side {
 public:
  /// Whether the command line starts a server.
  static bool is_requested(int argc, const char* const* argv);

  explicit server_side(const char* const* argv);

  const server_plan& plan() const { return plan_; }

  /// Listens, sends the port to the client, and returns the socket.
  int listen();

  /// Tells the client that the server is ready and answers its queries; ends the process when the
  /// client ends. `complete` fills in the members of a usage that only the caller knows.
  template <class Complete>
  [[noreturn]] void serve(Complete complete) {
    control_.send(server_process::serving{});
    while (receive_query()) {
      usage now = used_by_process();
      complete(now);
      control_.send(now);
    }
    std::_Exit(0);
  }

 private:
  bool receive_query();
  static usage used_by_process();

  control control_;
  server_plan plan_;
};

/// The main() of a server: accepts the connections and distributes them to threads.
template <class Contender, any_session Session>
[[noreturn]] void serve_sessions(const char* const* argv) {
  server_side side(argv);
  const int listener = side.listen();
  const std::vector<int> accepted = accept_all(listener, side.plan().connections);
  auto& sessions = session_threads<Session>::make(accepted, side.plan().threads, side.plan());
  sessions.template start<Contender>();
  side.serve([&sessions](usage& now) {
    now.bytes = sessions.sum(&session_counters::bytes);
    now.reads = sessions.sum(&session_counters::reads);
  });
}

}  // namespace lab::network
