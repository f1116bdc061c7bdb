// SPDX-License-Identifier: Apache-2.0
// boost::asio: a connection waits with async_wait until it is readable, and then reads into a
// buffer that all connections share: asio's documentation advises this for programs that hold many
// connections, as async_read_some would need a buffer for each. No locks.
#include <lab/experiments/connections/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

namespace {

using context = boost::asio::io_context;
using tcp = boost::asio::ip::tcp;
using socket = boost::asio::basic_stream_socket<tcp, context::executor_type>;
using acceptor = boost::asio::basic_socket_acceptor<tcp, context::executor_type>;
using boost::system::error_code;

class connection : public std::enable_shared_from_this<connection> {
 public:
  explicit connection(socket accepted) : socket_(std::move(accepted)) {
    socket_.non_blocking(true);
  }

  void wait() {
    socket_.async_wait(socket::wait_read, [self = shared_from_this()](const error_code& error) {
      if (!error) self->answer();
    });
  }

 private:
  void answer() {
    static std::array<std::byte, 64 * 1024> buffer;
    error_code error;
    const std::size_t got = socket_.read_some(boost::asio::buffer(buffer), error);
    if (error == boost::asio::error::would_block) return wait();
    if (!error) boost::asio::write(socket_, boost::asio::buffer(buffer.data(), got), error);
    if (!error) wait();
  }

  socket socket_;
};

class asio_server {
 public:
  static void serve(int listener) {
    context loop(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
    acceptor accepting(loop, tcp::v4(), listener);
    accept(accepting);
    loop.run();
  }

 private:
  static void accept(acceptor& from) {
    from.async_accept([&from](const error_code& error, socket accepted) {
      if (!error) std::make_shared<connection>(std::move(accepted))->wait();
      accept(from);
    });
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::connections::contender_main<asio_server>(argc, argv, {lab::boost_version()});
}
