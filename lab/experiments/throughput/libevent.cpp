// SPDX-License-Identifier: Apache-2.0
// libevent: a bufferevent per connection. Input goes to output as whole buffers, without a copy.
// The limit on a single read is lifted, but libevent 2.1 reads 4 KiB at a time whatever that limit
// is.
#include <lab/experiments/throughput/contender.hpp>
#include <lab/harness/libevent_base.hpp>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include <cstddef>
#include <new>
#include <span>
#include <vector>

namespace {

class libevent_contender {
 public:
  template <lab::network::any_session Session>
  static void run(std::span<Session> sessions) {
    const lab::libevent_base base = lab::make_libevent_base();
    std::vector<bufferevent*> connections;
    for (Session& each : sessions) connections.push_back(open(base.get(), each));
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      const auto data = sessions[i].first();
      if (!data.empty()) bufferevent_write(connections[i], data.data(), data.size());
    }
    event_base_dispatch(base.get());
  }

 private:
  static constexpr std::size_t most_at_once = std::size_t{1} << 20;

  template <class Session>
  static bufferevent* open(event_base* base, Session& served) {
    bufferevent* event = bufferevent_socket_new(base, served.fd(), 0);
    if (event == nullptr) throw std::bad_alloc();
    bufferevent_set_max_single_read(event, most_at_once);
    bufferevent_set_max_single_write(event, most_at_once);
    const auto on_event = [](bufferevent*, short, void* session) {
      static_cast<Session*>(session)->lost();
    };
    bufferevent_setcb(event, &on_read<Session>, nullptr, on_event, &served);
    bufferevent_enable(event, EV_READ | EV_WRITE);
    return event;
  }

  template <class Session>
  static void on_read(bufferevent* connection, void* session) {
    auto& served = *static_cast<Session*>(session);
    evbuffer* const input = bufferevent_get_input(connection);
    evbuffer* const output = bufferevent_get_output(connection);
    if constexpr (Session::echoes) {
      std::vector<evbuffer_iovec> pieces(
          static_cast<std::size_t>(evbuffer_peek(input, -1, nullptr, nullptr, 0)));
      evbuffer_peek(input, -1, nullptr, pieces.data(), static_cast<int>(pieces.size()));
      for (const evbuffer_iovec& each : pieces) served.received(bytes_of(each));
      evbuffer_add_buffer(output, input);
    } else {
      evbuffer_iovec piece;
      while (evbuffer_peek(input, -1, nullptr, &piece, 1) > 0) {
        const auto answer = served.received(bytes_of(piece));
        evbuffer_add(output, answer.data(), answer.size());
        evbuffer_drain(input, piece.iov_len);
      }
    }
  }

  static std::span<const std::byte> bytes_of(const evbuffer_iovec& piece) {
    return {static_cast<const std::byte*>(piece.iov_base), piece.iov_len};
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::network::contender_main<libevent_contender>(argc, argv, {{"libevent", event_get_version()}});
}
