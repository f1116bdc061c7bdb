// SPDX-License-Identifier: Apache-2.0
// The example in the comment of task's adapter of Boost.Asio.
#include <gyre/task/adapter/asio.hpp>
#include <gyre/task/spawn.hpp>

#include <gtest/gtest.h>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <cstddef>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

namespace asio_test {
namespace {

using boost::asio::ip::tcp;

// gyre/task/adapter/asio.hpp
// clang-format off
gyre::task<> echo(tcp::socket socket) {
  std::array<char, 1024> room;
  for (;;) {
    auto reading = socket.async_read_some(boost::asio::buffer(room), gyre::asio_awaitable);
    const std::size_t length = co_await std::move(reading);
    auto writing = boost::asio::async_write(
        socket, boost::asio::buffer(room, length), gyre::asio_awaitable);
    co_await std::move(writing);
  }
}
// clang-format on

TEST(AsioExamples, AdapterEchoes) {
  boost::asio::io_context context;
  gyre::asio_executor io(context.get_executor());

  tcp::acceptor acceptor(context, {boost::asio::ip::address_v4::loopback(), 0});
  tcp::socket peer(context);
  peer.connect(acceptor.local_endpoint());
  tcp::socket socket = acceptor.accept();
  boost::asio::write(peer, boost::asio::buffer("hello", 5));
  peer.shutdown(tcp::socket::shutdown_send);

  std::error_code logged;
  const auto log_error = [&](std::exception_ptr error) {
    try {
      std::rethrow_exception(std::move(error));
    } catch (const std::system_error& thrown) {
      logged = thrown.code();
    }
  };
  gyre::spawn(io, echo(std::move(socket)), {.on_error = log_error});  // eof at the end
  context.run();
  EXPECT_EQ(logged, std::error_code(boost::system::error_code(boost::asio::error::eof)));
  std::string echoed(5, ' ');
  boost::asio::read(peer, boost::asio::buffer(echoed));
  EXPECT_EQ(echoed, "hello");
}

}  // namespace
}  // namespace asio_test
