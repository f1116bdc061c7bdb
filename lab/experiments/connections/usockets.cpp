// SPDX-License-Identifier: Apache-2.0
// uSockets: its own listen socket and accept loop, and one context. All connections receive into
// the loop's buffer; behind its socket each has a pointer, to bytes that the kernel did not accept.
#include <lab/experiments/connections/workload.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/network/unsent_bytes.hpp>
#include <lab/harness/network/usockets.hpp>

#include <libusockets.h>

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>

namespace {

using namespace lab::network;

class usockets_server {
 public:
  static void serve(int listener) {
    usockets_loop loop;
    set_callbacks(loop.context());
    listen(loop, listener);
    loop.run();
  }

 private:
  // Stored behind uSockets' own data of the socket; both fit in 64 bytes of malloc's.
  struct connection {
    std::unique_ptr<unsent_bytes> unsent;  // null: the kernel has accepted all

    static connection& of(us_socket_t* socket) {
      return *static_cast<connection*>(us_socket_ext(without_tls, socket));
    }

    void write(us_socket_t* to, std::span<const std::byte> data) {
      if (!unsent) data = data.subspan(usockets_write(to, data));
      if (data.empty()) return;
      if (!unsent) unsent = std::make_unique<unsent_bytes>();
      unsent->append(data);
    }

    void write_unsent(us_socket_t* to) {
      if (!unsent) return;
      unsent->drop(usockets_write(to, unsent->left()));
      if (unsent->empty()) unsent.reset();
    }
  };

  // uSockets cannot take a socket that already listens. So it makes its own one, whose descriptor
  // then becomes the harness's socket. A listen socket is a poll.
  static void listen(usockets_loop& loop, int listener) {
    us_listen_socket_t* const accepting = us_socket_context_listen(
        without_tls, loop.context(), "127.0.0.1", 0, LIBUS_LISTEN_DEFAULT, sizeof(connection));
    if (accepting == nullptr) throw std::runtime_error("us_socket_context_listen failed");
    auto* const poll = reinterpret_cast<us_poll_t*>(accepting);
    us_poll_stop(poll, loop.get());
    checked(dup3(listener, us_poll_fd(poll), O_CLOEXEC), "dup3");
    us_poll_start(poll, loop.get(), EPOLLIN);
  }

  static void set_callbacks(us_socket_context_t* context) {
    static_assert(alignof(connection) <= LIBUS_EXT_ALIGNMENT);
    us_socket_context_on_open(without_tls, context, [](us_socket_t* socket, int, char*, int) {
      new (us_socket_ext(without_tls, socket)) connection;
      return socket;
    });
    us_socket_context_on_data(without_tls, context,
                              [](us_socket_t* socket, char* data, int length) {
                                connection::of(socket).write(socket, usockets_bytes(data, length));
                                return socket;
                              });
    us_socket_context_on_writable(without_tls, context, [](us_socket_t* socket) {
      connection::of(socket).write_unsent(socket);
      return socket;
    });
    us_socket_context_on_end(without_tls, context, [](us_socket_t* socket) {
      return us_socket_close(without_tls, socket, 0, nullptr);
    });
    us_socket_context_on_close(without_tls, context, [](us_socket_t* socket, int, void*) {
      std::destroy_at(&connection::of(socket));
      return socket;
    });
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::connections::contender_main<usockets_server>(argc, argv, {{"uSockets", "0.8"}});
}
