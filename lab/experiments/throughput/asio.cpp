// SPDX-License-Identifier: Apache-2.0
// boost::asio: an io_context per thread, without asio's locks. A connection reads into a buffer of
// its own. Once its messages fill that, it waits until it is readable and reads into a buffer of
// 256 KiB that all connections of a thread share, as long as reads fill that, too: so large
// messages stay in the cache, at the price of an epoll_ctl for each wait. An answer is written at
// once as far as the socket takes it. A handler's memory comes from asio's recycling allocator, and
// sockets know their executor's type.
#include <lab/experiments/throughput/contender.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <array>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

namespace {

using boost::system::error_code;

class asio_contender {
 public:
  template <lab::network::any_session Session>
  static void run(std::span<Session> sessions) {
    context context(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
    std::vector<std::byte> shared_buffer(std::size_t{256} * 1024);
    std::deque<connection<Session>> connections;
    for (Session& each : sessions) connections.emplace_back(context, each, shared_buffer);
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
    connection(context& in, Session& served, std::span<std::byte> shared_buffer)
        : served_(served), socket_(in, tcp::v4(), served.fd()), shared_buffer_(shared_buffer) {
      socket_.non_blocking(true);
    }

    void start() {
      if (!served_.first().empty()) send(served_.first());
      wait();
    }

   private:
    void wait() {
      if (fills_own_buffer_) return wait_until_readable();
      socket_.async_read_some(boost::asio::buffer(own_buffer_),
                              [this](const error_code& error, std::size_t got) {
                                if (error) served_.lost();
                                fills_own_buffer_ = got == own_buffer_.size();
                                answer(std::span(own_buffer_).first(got));
                              });
    }

    void wait_until_readable() {
      socket_.async_wait(socket::wait_read, [this](const error_code& failure) {
        if (failure) served_.lost();
        read_while_buffer_fills();
      });
    }

    void read_while_buffer_fills() {
      const auto buffer = boost::asio::buffer(shared_buffer_.data(), shared_buffer_.size());
      for (std::size_t got = buffer.size(); got == buffer.size() && may_read();) {
        error_code error;
        got = socket_.read_some(buffer, error);
        if (error == boost::asio::error::would_block) break;
        if (error) served_.lost();
        send(served_.received(shared_buffer_.first(got)));
      }
      if (may_read()) wait();
    }

    void answer(std::span<const std::byte> data) {
      send(served_.received(data));
      if (may_read()) wait();
    }

    // The server reads again once its answer is sent, the client at once.
    bool may_read() const { return Session::begins || unsent_.empty(); }

    void send(std::span<const std::byte> data) {
      std::size_t sent = 0;
      if (unsent_.empty() && !data.empty()) {
        error_code error;
        sent = socket_.write_some(boost::asio::buffer(data.data(), data.size()), error);
        if (error && error != boost::asio::error::would_block) served_.lost();
      }
      const bool starts = unsent_.empty() && sent < data.size();
      unsent_.insert(unsent_.end(), data.begin() + static_cast<std::ptrdiff_t>(sent), data.end());
      if (starts) send_unsent();
    }

    void send_unsent() {
      socket_.async_wait(socket::wait_write, [this](const error_code& failure) {
        error_code error = failure;
        const std::size_t sent =
            error ? 0 : socket_.write_some(boost::asio::buffer(unsent_), error);
        if (error && error != boost::asio::error::would_block) served_.lost();
        unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(sent));
        if (!unsent_.empty()) return send_unsent();
        if constexpr (!Session::begins) wait();
      });
    }

    Session& served_;
    socket socket_;
    std::span<std::byte> shared_buffer_;
    bool fills_own_buffer_ = false;
    std::array<std::byte, 4096> own_buffer_;
    std::vector<std::byte> unsent_;
  };
};

}  // namespace

int main(int argc, char** argv) {
  lab::network::contender_main<asio_contender>(argc, argv, {lab::boost_version()});
}
