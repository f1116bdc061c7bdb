// SPDX-License-Identifier: Apache-2.0
// boost::asio: a coroutine per end, which awaits its read; the handler of a steady_timer cancels
// the read. `read || timer` by asio's awaitable operators would start two more coroutines for each
// read. Sockets and timers know their executor's type, errors are values, and the hint leaves out
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
      std::byte byte{};
      while (reader.next()) {
        ++reads;
        limit.expires_after(reader.limit());
        // A handler that is in the queue already must not cancel the next read.
        limit.async_wait([this, read = reads](error_code error) {
          if (!error && read == reads) stream.cancel();
        });
        const auto [error, bytes] =
            co_await stream.async_read_some(asio::buffer(&byte, 1), as_value);
        if (error == asio::error::operation_aborted) {
          reader.timed_out();
        } else if (!error) {
          limit.cancel();
          reader.received(byte);
        }
      }
    }

    lab::timeout::reader& reader;
    socket stream;
    timer limit;
    std::uint64_t reads = 0;
  };

  asio::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
  std::deque<end> ends_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::timeout::contender_main<asio_loop>(argc, argv, {lab::boost_version()});
}
