// SPDX-License-Identifier: Apache-2.0
// The load of the HTTP/2 experiments: one thread, one epoll, connections with requests in flight.
// Closed: a connection asks again when a request has been answered.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/network/socket_poll.hpp>
#include <lab/harness/timing.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lab::http2 {

/// The requests of a load.
struct load_plan {
  std::uint16_t port = 0;
  std::size_t connections = 1;
  std::size_t in_flight = 1;  ///< requests of a connection at a time
  std::string target = "/plain";
  std::string sent_body;         ///< the body of each request, a POST; empty: a GET
  std::string expected_body;     ///< the body of each response
  fault sabotage = fault::none;  ///< a fault of the first request
};

/// The connections of a load, from the preface to the last PING.
/// Thread-safety: one thread.
class load {
 public:
  /// Connects, and waits for the SETTINGS of the server.
  /// Errors: throws std::system_error. A server that does not answer is a mistake().
  explicit load(load_plan plan);
  load(const load&) = delete;
  load& operator=(const load&) = delete;
  ~load();

  /// Opens `count` connections more, each for one request, after which it stays idle.
  void hold(std::size_t count);
  /// Opens `count` streams on each connection of hold(), for requests whose bodies do not come.
  void hold_streams(std::size_t count);
  /// Keeps the requests in flight until `end`, and until one was answered. Returns early after a
  /// mistake, or five seconds without a byte.
  void run(clock::time_point end);
  /// Waits for the responses that are missing, and for the reply to a PING on each connection: a
  /// response that nothing has asked for would stand before it.
  void finish();

  std::uint64_t requested() const { return requested_; }
  std::uint64_t answered() const { return answered_; }
  std::uint64_t wrong() const { return wrong_; }
  /// The first mistake.
  const std::string& mistake() const { return mistake_; }

 private:
  struct slot;

  void open(std::size_t count, bool is_idle);
  void await_pongs();
  void request(slot& peer, std::size_t count);
  void flush(slot& peer);
  void receive(slot& peer);
  void fail(slot& peer, std::string_view reason);
  void turn();
  template <class Done>
  void await(Done done, std::string_view otherwise);

  load_plan plan_;
  network::socket_poll poll_;
  std::vector<std::unique_ptr<slot>> slots_;
  std::unique_ptr<char[]> buffer_;
  std::uint64_t received_bytes_ = 0;
  std::uint64_t requested_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t wrong_ = 0;
  std::string mistake_;
  bool running_ = false;
  bool is_sabotaged_ = false;
};

}  // namespace lab::http2
