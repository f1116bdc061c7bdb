// SPDX-License-Identifier: Apache-2.0
// The load of the WebSocket experiments: one thread, one epoll, and a check of every message.
// Closed: a connection that has got an echo sends again, and a message is published when an earlier
// one has come to all subscribers.
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

namespace lab::websocket {

/// The messages of a load. They are echoed, unless there are subscribers: then a connection of its
/// own sends them, and all subscribers get them.
struct load_plan {
  std::uint16_t port = 0;
  std::size_t connections = 0;  ///< connections that get echoes
  std::size_t subscribers = 0;
  std::size_t in_flight = 1;  ///< messages of a connection, or published ones
  std::size_t message_bytes = 16;
  bool is_packed = false;        ///< whether permessage-deflate compresses the messages
  fault sabotage = fault::none;  ///< a fault of the first message
};

/// The WebSockets of a load, from the upgrade to the Close frames.
/// Thread-safety: one thread.
class load {
 public:
  /// Connects and opens the WebSockets.
  /// Errors: throws std::system_error. A refused upgrade is a mistake().
  explicit load(load_plan plan);
  load(const load&) = delete;
  load& operator=(const load&) = delete;
  ~load();

  /// Opens `count` connections more, each for one short echo, after which it stays idle.
  void hold(std::size_t count);
  /// Keeps the messages in flight until `end`, and until one has come. Returns early after a
  /// mistake, or five seconds without a message.
  void run(clock::time_point end);
  /// Waits for the messages that are missing, and closes all connections by Close frames: each
  /// message must come before its connection's.
  void finish();

  std::uint64_t requested() const { return requested_; }
  /// Messages that came: echoes, or deliveries to subscribers.
  std::uint64_t answered() const { return answered_; }
  std::uint64_t wrong() const { return wrong_; }
  /// The first mistake.
  const std::string& mistake() const { return mistake_; }

 private:
  enum class role { echo, subscriber, publisher, idle };
  struct slot;

  void open(std::size_t count, role purpose);
  void start(slot& peer);
  void await_open();
  void send_messages(slot& peer, std::size_t count);
  void publish(std::size_t count);
  void flush(slot& peer);
  void receive(slot& peer);
  void take(slot& peer, std::string_view data);
  std::string_view take_upgrade(slot& peer, std::string_view data);
  void take_messages(slot& peer, std::size_t count);
  void ended(slot& peer);
  void close_slot(slot& peer);
  void fail(slot& peer, std::string_view reason);
  void turn();
  template <class Done>
  void await(Done done);

  load_plan plan_;
  network::socket_poll poll_;
  std::vector<std::unique_ptr<slot>> slots_;
  std::unique_ptr<char[]> buffer_;
  std::size_t connected_ = 0;
  std::size_t upgraded_ = 0;
  std::size_t open_ = 0;
  // For each message in flight, the number of subscribers that have not got it.
  std::vector<std::size_t> awaiting_;
  std::uint64_t published_ = 0;
  std::uint64_t delivered_ = 0;  // published messages that all subscribers have got
  std::uint64_t requested_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t wrong_ = 0;
  std::string mistake_;
  bool running_ = false;
  bool is_sabotaged_ = false;
};

}  // namespace lab::websocket
