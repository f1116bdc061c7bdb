// SPDX-License-Identifier: Apache-2.0
// Boost.Beast: asynchronous reads and writes of whole messages on an io_context without locks, with
// typed executors and without time limits. Messages are sent in one frame; a published one has one
// copy, which each session of its topic sends.
#include <lab/harness/boost_version.hpp>
#include <lab/harness/websocket/workload.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using context = boost::asio::io_context;
using tcp = boost::asio::ip::tcp;
using socket = boost::asio::basic_stream_socket<tcp, context::executor_type>;
using acceptor = boost::asio::basic_socket_acceptor<tcp, context::executor_type>;
using boost::system::error_code;
using message = std::shared_ptr<const std::string>;

class session;

/// The sessions of /topic.
using topic = std::unordered_set<session*>;

class session : public std::enable_shared_from_this<session> {
 public:
  session(socket accepted, topic& subscribers)
      : stream_(std::move(accepted)), subscribers_(subscribers) {
    error_code ignored;
    std::ignore = stream_.next_layer().set_option(tcp::no_delay(true), ignored);
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session() { subscribers_.erase(this); }

  void run() {
    upgrade_.emplace();
    http::async_read(stream_.next_layer(), buffer_, *upgrade_,
                     [self = shared_from_this()](const error_code& error, std::size_t) {
                       if (!error) self->accept();
                     });
  }

  void send(message published) {
    queue_.push_back(std::move(published));
    if (queue_.size() == 1) write_queued();
  }

 private:
  enum class purpose { echo, subscribe, publish };

  void accept() {
    const std::string_view path = upgrade_->target();
    if (path == "/topic") purpose_ = purpose::subscribe;
    if (path == "/publish") purpose_ = purpose::publish;
    if (path == "/deflate") {
      websocket::permessage_deflate packing;
      packing.server_enable = true;
      packing.server_no_context_takeover = true;
      packing.client_no_context_takeover = true;
      packing.compLevel = 6;
      packing.memLevel = 8;
      stream_.set_option(packing);
    }
    stream_.auto_fragment(false);
    stream_.binary(true);
    stream_.read_message_max(lab::websocket::max_message_bytes);
    stream_.async_accept(*upgrade_, [self = shared_from_this()](const error_code& error) {
      if (error) return;
      self->upgrade_.reset();
      if (self->purpose_ == purpose::subscribe) self->subscribers_.insert(self.get());
      self->read();
    });
  }

  void read() {
    stream_.async_read(buffer_, [self = shared_from_this()](const error_code& error, std::size_t) {
      if (!error) self->take();
    });
  }

  void take() {
    if (purpose_ == purpose::echo) {
      return stream_.async_write(
          buffer_.data(), [self = shared_from_this()](const error_code& error, std::size_t size) {
            if (error) return;
            self->buffer_.consume(size);
            self->read();
          });
    }
    if (purpose_ == purpose::publish) {
      const auto published =
          std::make_shared<const std::string>(beast::buffers_to_string(buffer_.data()));
      for (session* const each : subscribers_) each->send(published);
    }
    buffer_.consume(buffer_.size());
    read();
  }

  void write_queued() {
    stream_.async_write(boost::asio::buffer(*queue_.front()),
                        [self = shared_from_this()](const error_code& error, std::size_t) {
                          if (error) return;
                          self->queue_.pop_front();
                          if (!self->queue_.empty()) self->write_queued();
                        });
  }

  websocket::stream<socket, true> stream_;
  topic& subscribers_;
  beast::flat_buffer buffer_;
  std::optional<http::request<http::empty_body>> upgrade_;
  purpose purpose_ = purpose::echo;
  std::deque<message> queue_;
};

class beast_server {
 public:
  static void serve(int listener) {
    context loop(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
    topic subscribers;
    acceptor accepting(loop, tcp::v4(), listener);
    accept(accepting, subscribers);
    loop.run();
  }

 private:
  static void accept(acceptor& source, topic& subscribers) {
    source.async_accept([&](const error_code& error, socket accepted) {
      if (!error) std::make_shared<session>(std::move(accepted), subscribers)->run();
      accept(source, subscribers);
    });
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::websocket::contender_main<beast_server>(argc, argv, {lab::boost_version()});
}
