// SPDX-License-Identifier: Apache-2.0
// udp_port: one socket of a udp_server, on one of its loops.
#pragma once

#include <gyre/base/detail/relaxed_counter.hpp>
#include <gyre/exec/detail/deferred_release.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/datagram_batch.hpp>
#include <gyre/net/detail/callback_gate.hpp>
#include <gyre/net/detail/datagram_operations.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/udp_server.hpp>

#include <array>
#include <mutex>
#include <optional>

namespace gyre::net::detail {

/// Thread-safety: members belong to the loop's thread, but for those marked for any thread.
class udp_port final : public udp_server::channel {
 public:
  /// `bound` is open and bound. Any thread, as the destructor of one that was closed.
  udp_port(udp_server::core& whole, event_loop& loop, socket bound);
  ~udp_port() = default;

  event_loop& loop() const noexcept { return loop_; }
  callback_gate& gate() noexcept { return gate_; }
  int fd() const noexcept { return open_ ? open_->descriptor.fd() : -1; }

  /// Begins to receive. Throws std::bad_alloc, and what attaching throws.
  void open();
  bool send_to(std::span<const std::byte> bytes, const endpoint& to);
  /// Receives no more, and closes when all waiting replies are sent.
  void stop();
  /// Any thread: when this returns no handler runs any more; the loop closes the socket, now or
  /// later.
  static void abandon(std::shared_ptr<udp_port> port) noexcept;

  /// Any thread.
  void add_to(udp_server_metrics& sum) const noexcept;

 private:
  // Datagrams to send: their bytes, one after the other, and their receivers.
  struct replies {
    struct reply {
      std::size_t offset;
      std::size_t size;
      endpoint to;
    };
    std::vector<std::byte> bytes;
    std::vector<reply> each;
    std::size_t sent = 0;

    /// Throws std::bad_alloc, and then nothing is added.
    void add(std::span<const std::byte> added, const endpoint& to) {
      const std::size_t offset = bytes.size();
      bytes.insert(bytes.end(), added.begin(), added.end());
      try {
        each.push_back({offset, added.size(), to});
      } catch (...) {
        bytes.resize(offset);
        throw;
      }
    }
    bool done() const noexcept { return sent == each.size(); }
    const reply& next() const noexcept { return each[sent]; }
    std::size_t memory() const noexcept { return bytes.size() + each.size() * sizeof(reply); }
    void clear() noexcept {
      bytes.clear();
      each.clear();
      sent = 0;
    }
  };
  template <class Request>
  struct request_of_port final : Request {
    request_of_port(io::handle& on, udp_port& of, io::request::function completed) noexcept
        : Request(on, {}, completed), self(&of) {}
    udp_port* self;
  };
  using receive_some = request_of_port<io::receive_messages_request>;
  using send_some = request_of_port<io::send_messages_request>;
  // Parts of an open port on the loop.
  struct registration {
    registration(udp_port& of, unique_fd fd);
    io::descriptor descriptor;
    receive_some receiving;
    send_some sending;
    timer again;
  };
  static constexpr std::size_t most_sent = 64;  // with one call
  static constexpr int most_batches = 4;        // before the loop gets its turn

  static void on_received(io::request& request, io::result result);
  static void on_sent(io::request& request, io::result result);
  void receive(std::optional<io::result> result);
  bool deliver_batch();
  void deliver_rest();
  void flush() noexcept;
  std::span<mmsghdr> describe_unsent() noexcept;
  void sent(io::result result) noexcept;
  void close() noexcept;
  void close_when_done();

  udp_server::core& core_;
  event_loop& loop_;
  callback_gate gate_;
  socket bound_;  // until it is open
  std::optional<registration> open_;
  std::optional<datagram_batch> batch_;
  std::size_t delivered_ = 0;  // of it
  // One is filled while the kernel has to wait with the other.
  replies filling_;
  replies draining_;
  std::array<mmsghdr, most_sent> messages_;
  std::array<iovec, most_sent> pieces_;
  std::array<control_room, most_sent> controls_;
  bool delivering_ = false;
  bool stopping_ = false;
  gyre::detail::deferred_release<udp_port> release_{
      [](std::shared_ptr<udp_port> port, gyre::detail::release_point) { port->close(); }};
  gyre::detail::published_counter received_, sent_, bytes_received_, bytes_sent_, truncated_,
      refused_, errors_;
};

}  // namespace gyre::net::detail

namespace gyre::net {

/// State that all loops share. Kept alive by the server and by the functions that it has posted.
class udp_server::core : public std::enable_shared_from_this<core> {
 public:
  core(std::vector<event_loop*> loops, udp_server_options settings);

  void on_datagram(datagram_function callback);
  void listen(const endpoint& at);
  endpoint local_endpoint(std::size_t index) const;
  void start();
  void stop(move_only_function<void()> done);
  void abandon() noexcept;
  udp_server_metrics metrics() const;
  /// Called by each port when it has stopped.
  void port_stopped();

  const udp_server_options options;
  datagram_function received;  // not changed any more when there is an open port

 private:
  std::shared_ptr<detail::udp_port> shared(detail::udp_port& part) noexcept {
    return std::shared_ptr<detail::udp_port>(shared_from_this(), &part);
  }
  template <class Function>
  void post(detail::udp_port& part, Function function);
  void post_done(move_only_function<void()> done);

  const std::vector<event_loop*> loops_;
  detail::callback_gate gate_;  // for done callbacks, on the first loop
  mutable std::mutex mutex_;    // for the members below
  std::vector<std::unique_ptr<detail::udp_port>> ports_;
  std::vector<endpoint> endpoints_;
  std::size_t ports_running_ = 0;
  bool started_ = false;
  bool stopping_ = false;
  std::vector<move_only_function<void()>> when_stopped_;
};

}  // namespace gyre::net
