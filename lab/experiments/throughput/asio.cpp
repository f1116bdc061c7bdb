// SPDX-License-Identifier: Apache-2.0
// boost::asio: an io_context per thread, without asio's locks; async_read_some into the
// connection's own buffer, as asio's interface requires, and async_write out of it. A handler's
// memory comes from asio's recycling allocator, and sockets know their executor's type. The buffer
// has 64 KiB: asio's examples use 1 KiB, which is far slower; the published program used the
// message's size.
#include <lab/experiments/throughput/contender.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace {

class asio_contender {
 public:
  template <lab::network::any_session Session>
  static void run(std::span<Session> sessions) {
    context context(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
    std::deque<connection<Session>> connections;
    for (Session& each : sessions) connections.emplace_back(context, each);
    for (auto& each : connections) each.start();
    context.run();
  }

 private:
  using context = boost::asio::io_context;
  using tcp = boost::asio::ip::tcp;
  using socket = boost::asio::basic_stream_socket<tcp, context::executor_type>;

  template <class Session>
  class connection {
   public:
    connection(context& in, Session& served)
        : served_(served), socket_(in, tcp::v4(), served.fd()) {
      socket_.non_blocking(true);
    }

    void start() {
      if (!served_.first().empty()) send(served_.first());
      read();
    }

   private:
    static constexpr std::size_t buffer_bytes = 64 * 1024;

    void read() {
      socket_.async_read_some(boost::asio::buffer(buffer_.get(), buffer_bytes),
                              [this](const boost::system::error_code& error, std::size_t got) {
                                if (error) served_.lost();
                                answer(served_.received(std::span(buffer_.get(), got)));
                              });
    }

    // The server reads again once its answer is sent; the client at once, into its other buffer.
    void answer(std::span<const std::byte> data) {
      if (data.empty()) return read();
      if constexpr (!Session::begins) return send(data);
      if (sending_) {
        queued_.insert(queued_.end(), data.begin(), data.end());
      } else {
        buffer_.swap(other_buffer_);
        send(data);
      }
      read();
    }

    void send(std::span<const std::byte> data) {
      sending_ = true;
      boost::asio::async_write(socket_, boost::asio::buffer(data.data(), data.size()),
                               [this](const boost::system::error_code& error, std::size_t) {
                                 if (error) served_.lost();
                                 sending_ = false;
                                 if constexpr (!Session::begins) return read();
                                 if (!queued_.empty()) send_queued();
                               });
    }

    void send_queued() {
      sent_.swap(queued_);
      queued_.clear();
      send(sent_);
    }

    using buffer = std::unique_ptr<std::byte[]>;

    Session& served_;
    socket socket_;
    bool sending_ = false;
    buffer buffer_{new std::byte[buffer_bytes]};
    buffer other_buffer_{Session::begins ? new std::byte[buffer_bytes] : nullptr};
    std::vector<std::byte> queued_;  // arrived while something was being sent
    std::vector<std::byte> sent_;
  };
};

}  // namespace

int main(int argc, char** argv) {
  lab::network::contender_main<asio_contender>(argc, argv, {lab::boost_version()});
}
