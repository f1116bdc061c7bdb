// SPDX-License-Identifier: Apache-2.0
// boost::asio: a coroutine per end, which awaits a steady_timer that the read's handler cancels. So
// the read stays pending when its limit expires, where cancelling it would cost three times as
// much. Sockets and timers know their executor's type, errors are values, and the hint leaves out
// asio's locks. Debian's version has no cancel_after.
#include <lab/experiments/timeout/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace {

namespace asio = boost::asio;

using asio::local::stream_protocol;
using boost::system::error_code;
using executor = asio::io_context::executor_type;
using socket = asio::basic_stream_socket<stream_protocol, executor>;
using timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, executor>;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable_t<executor>());

class asio_loop {
 public:
  explicit asio_loop(lab::timeout::readers& ends) {
    for (lab::timeout::reader& each : ends) ends_.emplace_back(context_, each);
  }

  void run() {
    for (end& each : ends_) asio::co_spawn(context_, each.serve(), asio::detached);
    context_.run();
  }

 private:
  struct end {
    end(asio::io_context& context, lab::timeout::reader& its)
        : reader(its), stream(context, stream_protocol(), ::dup(its.fd())), limit(context) {}

    asio::awaitable<void, executor> serve() {
      while (reader.next()) {
        limit.expires_after(reader.limit());
        if (!is_reading) receive();
        if (!has_byte) co_await limit.async_wait(as_value);
        if (has_byte) {
          has_byte = false;
          reader.received(byte);
        } else {
          reader.timed_out();
        }
      }
      stream.cancel();
    }

    void receive() {
      is_reading = true;
      stream.async_read_some(asio::buffer(&byte, 1), [this](error_code error, std::size_t) {
        is_reading = false;
        if (error) return;
        has_byte = true;
        limit.cancel();
      });
    }

    std::byte byte{};
    bool is_reading = false;
    bool has_byte = false;
    lab::timeout::reader& reader;
    socket stream;
    timer limit;
  };

  asio::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
  std::deque<end> ends_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::timeout::contender_main<asio_loop>(argc, argv, {lab::boost_version()});
}
