// SPDX-License-Identifier: Apache-2.0
// uSockets: sockets adopted into one context, as those that it accepts itself. All receive into the
// loop's 512 KiB, from which an answer is written at once; bytes that the kernel does not accept
// are copied and written in on_writable, as in uSockets' echo server.
#include <lab/experiments/throughput/contender.hpp>
#include <lab/harness/network/unsent_bytes.hpp>
#include <lab/harness/network/usockets.hpp>

#include <libusockets.h>

#include <cstddef>
#include <new>
#include <span>

namespace {

using namespace lab::network;

class usockets_contender {
 public:
  template <any_session Session>
  static void run(std::span<Session> sessions) {
    usockets_loop loop;
    set_callbacks<Session>(loop.context());
    for (Session& each : sessions) {
      us_socket_t* const socket = us_adopt_accepted_socket(without_tls, loop.context(), each.fd(),
                                                           sizeof(connection<Session>), nullptr, 0);
      auto& opened = *new (us_socket_ext(without_tls, socket)) connection<Session>{each, {}};
      opened.write(socket, each.first());
    }
    loop.run();
  }

 private:
  // Stored behind uSockets' own data of the socket.
  template <class Session>
  struct connection {
    Session& served;
    unsent_bytes unsent;

    static connection& of(us_socket_t* socket) {
      return *static_cast<connection*>(us_socket_ext(without_tls, socket));
    }

    void write(us_socket_t* to, std::span<const std::byte> data) {
      if (data.empty()) return;
      if (unsent.empty()) data = data.subspan(usockets_write(to, data));
      unsent.append(data);
    }

    void write_unsent(us_socket_t* to) { unsent.drop(usockets_write(to, unsent.left())); }
  };

  template <class Session>
  static void set_callbacks(us_socket_context_t* context) {
    using peer = connection<Session>;
    static_assert(alignof(peer) <= LIBUS_EXT_ALIGNMENT);
    us_socket_context_on_open(without_tls, context,
                              [](us_socket_t* socket, int, char*, int) { return socket; });
    us_socket_context_on_data(without_tls, context,
                              [](us_socket_t* socket, char* data, int length) {
                                peer& from = peer::of(socket);
                                const auto piece = usockets_bytes(data, length);
                                from.write(socket, from.served.received(piece));
                                return socket;
                              });
    us_socket_context_on_writable(without_tls, context, [](us_socket_t* socket) {
      peer::of(socket).write_unsent(socket);
      return socket;
    });
    us_socket_context_on_end(without_tls, context, [](us_socket_t* socket) {
      peer::of(socket).served.lost();
      return socket;
    });
    us_socket_context_on_close(without_tls, context, [](us_socket_t* socket, int, void*) {
      peer::of(socket).served.lost();
      return socket;
    });
  }
};

}  // namespace

int main(int argc, char** argv) {
  contender_main<usockets_contender>(argc, argv, {{"uSockets", "0.8"}});
}
