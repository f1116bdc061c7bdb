// SPDX-License-Identifier: Apache-2.0
// The load of the HTTP experiments: one thread, one epoll, connections with requests in flight, and
// a check of every answer. Closed: a connection asks again when it has been answered.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/http/answer_reader.hpp>
#include <lab/harness/network/socket_poll.hpp>
#include <lab/harness/timing.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lab::http {

/// The requests of a load.
struct load_plan {
  std::uint16_t port = 0;
  std::size_t connections = 1;
  std::size_t in_flight = 1;     ///< requests of a connection that are not answered yet
  bool renewed = false;          ///< a new connection for each request, `Connection: close`
  std::string target = "/";      ///< of a GET, where no body is sent
  std::size_t sent_bytes = 0;    ///< of the body of a POST, which is expected back
  std::string body;              ///< of the answer to a GET
  fault sabotage = fault::none;  ///< of the first request
};

/// Waits until a server at this port of 127.0.0.1 accepts connections.
/// Errors: throws std::runtime_error after ten seconds.
void await_listening(std::uint16_t port);

/// The connections of a load, from the first request to the last answer.
/// Thread-safety: one thread.
class load {
 public:
  /// Errors: throws std::system_error.
  explicit load(load_plan plan);
  load(const load&) = delete;
  load& operator=(const load&) = delete;
  ~load();

  /// Keeps the requests in flight until `end`. Returns early after a mistake, or five seconds
  /// without an answer.
  void run(clock::time_point end);
  /// Waits for the answers that are missing, and ends connections that stay by a request that says
  /// `Connection: close`: each answer before its own, nothing has asked for.
  void finish();

  std::uint64_t requested() const { return requested_; }
  std::uint64_t answered() const { return answered_; }
  std::uint64_t wrong() const { return wrong_; }
  /// The first mistake.
  const std::string& mistake() const { return mistake_; }

 private:
  struct slot;

  void open(slot& peer);
  void close_slot(slot& peer);
  void ask(slot& peer, std::size_t count);
  void end(slot& peer);
  void flush(slot& peer);
  void receive(slot& peer);
  void take(slot& peer, std::string_view data);
  void ended(slot& peer);
  void fail(slot& peer, std::string_view reason);
  void turn();
  template <class Done>
  void await(Done done);

  load_plan plan_;
  network::socket_poll poll_;
  head_checker heads_;
  head_checker last_heads_;  // of answers to requests that end connections
  std::vector<std::unique_ptr<slot>> slots_;
  std::unique_ptr<char[]> buffer_;
  std::size_t opened_ = 0;
  std::size_t open_ = 0;
  std::uint64_t requested_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t wrong_ = 0;
  std::string mistake_;
  bool running_ = false;
  bool is_sabotaged_ = false;
};

}  // namespace lab::http
