// SPDX-License-Identifier: Apache-2.0
// The connections that a server or a client has on one loop: what they have in common, and their
// lifetime. Connections are freed by the group only, and the group in a turn of its loop of its own
// (or with the loop), so that handlers may destroy whatever they like.
#pragma once

#include <gyre/base/detail/tally.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/backend.hpp>
#include <gyre/net/detail/callback_gate.hpp>
#include <gyre/net/socket_options.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <system_error>

namespace gyre::net::detail {

/// Sets what `how` asks for on a TCP socket: one that is connected, or that listens, whose connections
/// inherit it. It can only fail where the connection has been lost already, which reading will tell.
/// Any thread.
void apply(const connection_options& how, const socket_ref& to) noexcept;

/// The loop's thread, unless said otherwise.
class connection_group {
  using place = tcp_connection::place;

 public:
  /// `handlers` and `options` must live as long. Throws what io::backend_of() throws, and
  /// std::invalid_argument for options that make no sense. Any thread.
  connection_group(event_loop& loop, connection_handlers& handlers,
                   const connection_options& options);
  connection_group(const connection_group&) = delete;
  connection_group& operator=(const connection_group&) = delete;
  /// Any thread: abandoned groups are empty.
  virtual ~connection_group();

  event_loop& loop() const noexcept { return loop_; }
  io::backend& io() const noexcept { return io_; }
  connection_handlers& handlers() const noexcept { return handlers_; }
  const connection_options& options() const noexcept { return options_; }
  std::size_t low_water() const noexcept { return low_water_; }
  callback_gate& gate() noexcept { return gate_; }

  /// Takes over a connected socket, and calls `connected`; throws what that throws. False if there is
  /// no memory for it (then it is closed), or the gate is closed.
  bool adopt(unique_fd socket, const endpoint& peer, std::uint64_t id);

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  /// Calls `function` with each connection that has not ended; it may do anything. What it throws
  /// aborts that connection only; the first such exception is thrown in the end.
  template <class Function>
  void for_each(Function&& function) {
    std::exception_ptr thrown;
    // None leaves the list here: they do so in turns of their own.
    for (place& each : list_) {
      tcp_connection& connection = *each.self;
      try {
        if (connection.is_open()) connection.from_loop([&] { function(connection); });
      } catch (...) {
        if (!thrown) thrown = std::current_exception();
      }
    }
    if (thrown) std::rethrow_exception(thrown);
  }

  /// Any thread: no handler runs any more when this returns; then `group`'s connections are closed
  /// and freed by its loop, at once where that is possible.
  static void abandon(std::shared_ptr<connection_group> group) noexcept;

  // The connections'.
  void count_received(std::size_t bytes) noexcept {
    bytes_received_.add(bytes);
    messages_.add(1);
  }
  void count_sent(std::size_t bytes) noexcept { bytes_sent_.add(bytes); }
  /// Before `connected` is called, before `closed` is, and when the connection has been freed.
  virtual void connection_begins(tcp_connection&) {}
  virtual void connection_ends(tcp_connection&) noexcept {}
  virtual void connection_gone() {}
  void remove(tcp_connection& ended) noexcept;

  /// Any thread.
  connection_metrics metrics() const noexcept {
    return {.bytes_received = bytes_received_.get(),
            .bytes_sent = bytes_sent_.get(),
            .messages = messages_.get()};
  }

 protected:
  /// Closes what else the group has on the loop, when it is abandoned. May be called twice.
  virtual void close_others() noexcept {}

 private:
  class undertaker;
  struct burial final : operation {
    burial() noexcept;
    std::shared_ptr<connection_group> group;
  };

  tcp_connection* make(int fd, const endpoint& peer, std::uint64_t id) noexcept;
  void close_all() noexcept;
  bool free_what_is_idle() noexcept;
  static void bury(std::shared_ptr<connection_group> group) noexcept;
  static void bury_later(std::shared_ptr<connection_group> group, bool& hired) noexcept;

  event_loop& loop_;
  io::backend& io_;
  connection_handlers& handlers_;
  const connection_options& options_;
  const std::size_t low_water_;
  callback_gate gate_;
  gyre::detail::tally bytes_received_, bytes_sent_, messages_;
  intrusive_list<place> list_;
  std::size_t size_ = 0;
  // The inbox has taken an undertaker: by abandon(), and afterwards.
  bool hired_ = false;
  bool hired_again_ = false;
  burial burial_;
};

}  // namespace gyre::net::detail

// An exception ends the connection: nobody knows any more where in its stream it is.
template <class Work>
void gyre::net::tcp_connection::from_loop(Work&& work) {
  const detail::callback_gate::pass passing(group_->gate());
  if (!passing) return;
  try {
    work();
  } catch (...) {
    abort();
    throw;
  }
}
