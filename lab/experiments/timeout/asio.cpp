// SPDX-License-Identifier: Apache-2.0
// boost::asio: a socket and a steady_timer per end, with handlers. A read stays pending when its
// limit expires and becomes the next one, so that only the timer starts again. Both know their
// executor's type, and the hint leaves out asio's locks.
#include <lab/experiments/timeout/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace {

namespace asio = boost::asio;

using boost::system::error_code;
using executor = asio::io_context::executor_type;
using stream_socket = asio::basic_stream_socket<asio::local::stream_protocol, executor>;
using timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, executor>;

class asio_loop {
 public:
  explicit asio_loop(lab::timeout::readers& ends) {
    for (lab::timeout::reader& each : ends) ends_.emplace_back(context_, each);
  }

  void run() {
    for (end& each : ends_) each.next();
    context_.run();
  }

 private:
  struct end {
    end(asio::io_context& context, lab::timeout::reader& its)
        : reader(its),
          socket(context, asio::local::stream_protocol(), ::dup(its.fd())),
          limit(context) {}

    void next() {
      if (!reader.next()) {
        done = true;
        socket.cancel();
        return;
      }
      ++reads;
      limit.expires_after(reader.limit());
      // A handler that is in the queue already must not end the next read.
      limit.async_wait([this, read = reads](error_code error) {
        if (error || read != reads || done) return;
        reader.timed_out();
        next();
      });
      if (!reading) receive();
    }

    void receive() {
      reading = true;
      socket.async_read_some(asio::buffer(&byte, 1), [this](error_code error, std::size_t) {
        reading = false;
        if (error) return;
        limit.cancel();
        reader.received(byte);
        next();
      });
    }

    lab::timeout::reader& reader;
    stream_socket socket;
    timer limit;
    std::byte byte{};
    std::uint64_t reads = 0;
    bool reading = false;
    bool done = false;
  };

  asio::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
  std::deque<end> ends_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::timeout::contender_main<asio_loop>(argc, argv, {lab::boost_version()});
}
