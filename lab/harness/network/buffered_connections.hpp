// SPDX-License-Identifier: Apache-2.0
// The contenders muduo_design and evpp_design of the network experiments: the connection that both
// designs share, over the loop, channel and buffer of one of them.
#pragma once

#include <lab/harness/network/session.hpp>

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace lab::network {

/// A connection that reads once when its socket is readable, gives its input buffer to a callback,
/// and sends at once. Bytes that the kernel does not accept are copied to an output buffer.
template <class Design>
class buffered_connection : public std::enable_shared_from_this<buffered_connection<Design>> {
 public:
  using buffer = Design::buffer;
  using pointer = std::shared_ptr<buffered_connection>;
  using message_callback = std::function<void(const pointer&, buffer&)>;

  buffered_connection(Design::loop& loop, int fd) : channel_(loop, fd) {
    channel_.on_readable([this] { read(); });
    channel_.on_writable([this] { send_rest(); });
  }

  void on_message(message_callback callback) { message_ = std::move(callback); }
  void on_close(std::function<void()> callback) { closed_ = std::move(callback); }

  void start() {
    channel_.tie(this->shared_from_this());
    channel_.watch_reading(true);
  }

  void send(std::span<const std::byte> data) {
    if (data.empty()) return;
    if (!channel_.is_writing() && output_.empty()) data = data.subspan(send_some(data));
    if (data.empty()) return;
    output_.append(data);
    channel_.watch_writing(true);
  }

 private:
  void read() {
    const ssize_t got = input_.read_from(channel_.fd());
    if (got > 0) {
      message_(this->shared_from_this(), input_);
    } else if (got == 0 || errno != EAGAIN) {
      closed_();
    }
  }

  void send_rest() {
    output_.drop(send_some(output_.unread()));
    if (output_.empty()) channel_.watch_writing(false);
  }

  std::size_t send_some(std::span<const std::byte> data) {
    const ssize_t sent = ::send(channel_.fd(), data.data(), data.size(), MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno != EAGAIN) closed_();
    return 0;
  }

  Design::channel channel_;
  buffer input_;
  buffer output_;
  message_callback message_;
  std::function<void()> closed_;
};

/// The contender. Answers are sent from where the input lies, if they are the input.
template <class Design>
class buffered_connections {
 public:
  template <any_session Session>
  static void run(std::span<Session> sessions) {
    typename Design::loop loop;
    std::vector<typename connection::pointer> connections;
    for (Session& each : sessions) connections.push_back(open(loop, each));
    for (std::size_t i = 0; i < sessions.size(); ++i) connections[i]->send(sessions[i].first());
    loop.run();
  }

 private:
  using connection = buffered_connection<Design>;

  template <class Session>
  static connection::pointer open(Design::loop& loop, Session& served) {
    auto opened = std::make_shared<connection>(loop, served.fd());
    opened->on_message([&served](const connection::pointer& peer, connection::buffer& input) {
      peer->send(served.received(input.unread()));
      input.clear();
    });
    opened->on_close([&served] { served.lost(); });
    opened->start();
    return opened;
  }
};

}  // namespace lab::network
