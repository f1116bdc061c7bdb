// SPDX-License-Identifier: Apache-2.0
// boost::asio: a coroutine per end, which awaits the read or the timer by asio's awaitable
// operators; Debian's version has no cancel_after. Errors are values, so nothing is thrown. The
// hint leaves out asio's locks.
#include <lab/experiments/timeout/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <unistd.h>

#include <cstddef>
#include <utility>
#include <variant>

namespace {

using boost::asio::local::stream_protocol;

class asio_loop {
 public:
  explicit asio_loop(lab::timeout::readers& ends) : ends_(ends) {}

  void run() {
    for (lab::timeout::reader& each : ends_) {
      stream_protocol::socket socket(context_, stream_protocol(), ::dup(each.fd()));
      boost::asio::co_spawn(context_, serve(std::move(socket), each), boost::asio::detached);
    }
    context_.run();
  }

 private:
  static boost::asio::awaitable<void> serve(stream_protocol::socket socket,
                                            lab::timeout::reader& owner) {
    using namespace boost::asio::experimental::awaitable_operators;
    constexpr auto as_value = boost::asio::as_tuple(boost::asio::use_awaitable);
    boost::asio::steady_timer limit(socket.get_executor());
    std::byte byte{};
    while (owner.next()) {
      limit.expires_after(owner.limit());
      const auto first =
          co_await (socket.async_read_some(boost::asio::buffer(&byte, 1), as_value) ||
                    limit.async_wait(as_value));
      if (first.index() == 1) {
        owner.timed_out();
      } else if (!std::get<0>(std::get<0>(first))) {
        owner.received(byte);
      }
    }
  }

  lab::timeout::readers& ends_;
  boost::asio::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
};

}  // namespace

int main(int argc, char** argv) {
  return lab::timeout::contender_main<asio_loop>(argc, argv, {lab::boost_version()});
}
