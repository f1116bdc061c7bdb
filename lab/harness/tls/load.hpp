// SPDX-License-Identifier: Apache-2.0
// The load of the TLS experiments: one thread, one edge-triggered epoll, connections of OpenSSL
// that send a message and compare what comes back. Closed: a connection goes on when it has been
// answered.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/timing.hpp>
#include <lab/harness/tls/credentials.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lab::tls {

/// The messages of a load.
struct load_plan {
  std::uint16_t port = 0;
  std::size_t connections = 1;
  std::size_t message_bytes = 1;
  bool encrypted = true;
  bool renewed = false;          ///< a new connection, and a new handshake, for each message
  bool resumed = false;          ///< such a handshake resumes the session of the one before it
  fault sabotage = fault::none;  ///< of the first message
};

/// The connections of a load.
/// Thread-safety: one thread.
class load {
 public:
  /// `trusting`: of make_client_context().
  /// Errors: throws std::system_error.
  load(const load_plan& plan, context trusting);
  load(const load&) = delete;
  load& operator=(const load&) = delete;
  ~load();

  /// Keeps a message of each connection on its way until `end`. Returns early after a mistake, or
  /// five seconds without an answer.
  void run(clock::time_point end);
  /// Waits for the answers that are missing, and ends all connections: whatever the server sends
  /// before its end, nothing has asked for.
  void finish();
  /// Makes connections that stay, idle, when each has been used for a message. The others end, or
  /// become idle, too.
  void hold(std::size_t count);

  std::uint64_t sent() const { return sent_; }
  std::uint64_t answered() const { return answered_; }
  std::uint64_t wrong() const { return wrong_; }
  /// The first mistake.
  const std::string& mistake() const { return mistake_; }

 private:
  struct slot;
  enum class phase : std::uint8_t;

  static int keep_session(SSL* of, SSL_SESSION* session);
  slot& add_slot();
  void open(slot& at);
  void close_slot(slot& at);
  void fail(slot& at, std::string_view why);
  void go_on(slot& at);
  bool shake_hands(slot& at);
  void send_message(slot& at);
  bool write_rest(slot& at);
  bool read_answer(slot& at);
  void take(slot& at, std::size_t size);
  void answered(slot& at);
  void end(slot& at);
  bool await_end(slot& at);
  void turn();
  template <class Done>
  void await(Done done);

  load_plan plan_;
  context context_;
  int epoll_;
  std::vector<std::unique_ptr<slot>> slots_;
  std::unique_ptr<char[]> buffer_;
  std::size_t opened_ = 0;
  std::size_t open_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t wrong_ = 0;
  std::string mistake_;
  bool running_ = false;
  bool is_sabotaged_ = false;
};

}  // namespace lab::tls
