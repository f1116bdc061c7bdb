// SPDX-License-Identifier: Apache-2.0
// boost::asio's ssl::stream. In the experiment tls_echo a connection has a buffer of its own for
// async_read_some. In tls_handshake, which counts the memory of idle connections, it waits with
// async_wait until it is readable, at the price of an epoll_ctl, and then reads into a buffer that
// all connections share. No locks.
#include <lab/harness/boost_version.hpp>
#include <lab/harness/built_as.hpp>
#include <lab/harness/tls/workload.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace ssl = boost::asio::ssl;
using context = boost::asio::io_context;
using tcp = boost::asio::ip::tcp;
using socket = boost::asio::basic_stream_socket<tcp, context::executor_type>;
using acceptor = boost::asio::basic_socket_acceptor<tcp, context::executor_type>;
using boost::system::error_code;

class connection : public std::enable_shared_from_this<connection> {
 public:
  connection(socket accepted, ssl::context& tls) : stream_(std::move(accepted), tls) {
    error_code ignored;
    stream_.next_layer().set_option(tcp::no_delay(true), ignored);
  }

  void start() {
    stream_.async_handshake(ssl::stream_base::server,
                            [self = shared_from_this()](const error_code& error) {
                              if (error) return;
                              self->stream_.next_layer().non_blocking(true);
                              self->read();
                            });
  }

 private:
  void read() {
    if (!has_own_buffer) return answer();
    if (own_buffer_.empty()) own_buffer_.resize(largest_record);
    stream_.async_read_some(
        boost::asio::buffer(own_buffer_),
        [self = shared_from_this()](const error_code& error, std::size_t got) {
          if (error == boost::asio::error::eof) return self->end();
          if (error) return;
          error_code failure;
          boost::asio::write(self->stream_, boost::asio::buffer(self->own_buffer_, got), failure);
          if (!failure) self->read();
        });
  }

  void wait() {
    stream_.next_layer().async_wait(socket::wait_read,
                                    [self = shared_from_this()](const error_code& error) {
                                      if (!error) self->answer();
                                    });
  }

  void answer() {
    static std::array<std::byte, 64 * 1024> buffer;
    for (;;) {
      error_code error;
      const std::size_t got = stream_.read_some(boost::asio::buffer(buffer), error);
      if (error == boost::asio::error::would_block) return wait();
      if (error == boost::asio::error::eof) return end();
      if (error) return;
      boost::asio::write(stream_, boost::asio::buffer(buffer.data(), got), error);
      if (error) return;
    }
  }

  void end() {
    stream_.async_shutdown([self = shared_from_this()](const error_code&) {});
  }

  static constexpr std::size_t largest_record = 16 * 1024;
  static inline const bool has_own_buffer =
      lab::built_as.experiment == std::string_view("tls_echo");

  ssl::stream<socket> stream_;
  std::vector<std::byte> own_buffer_;
};

class asio_server {
 public:
  static void serve(int listener, const lab::tls::credentials& own) {
    context loop(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
    ssl::context tls(lab::tls::make_server_context(own).release());
    acceptor accepting(loop, tcp::v4(), listener);
    accept(accepting, tls);
    loop.run();
  }

 private:
  static void accept(acceptor& from, ssl::context& tls) {
    from.async_accept([&from, &tls](const error_code& error, socket accepted) {
      if (!error) std::make_shared<connection>(std::move(accepted), tls)->start();
      accept(from, tls);
    });
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::tls::contender_main<asio_server>(argc, argv, {lab::boost_version()});
}
