// SPDX-License-Identifier: Apache-2.0
// The floor: epoll, and OpenSSL on the sockets themselves, which reads ahead, with one buffer for
// all connections; or, where GYRE_LAB_PLAIN is defined, epoll and no TLS.
#include <lab/harness/network/socket.hpp>
#include <lab/harness/tls/workload.hpp>

#include <openssl/err.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace {

#ifdef GYRE_LAB_PLAIN

struct channel {
  channel(SSL_CTX*, int descriptor) : fd(descriptor) {}

  // The bytes that came; 0 at the end, -1 if nothing has come yet.
  int read(void* into, std::size_t size) const {
    const ssize_t got = recv(fd, into, size, 0);
    return got < 0 && errno != EAGAIN ? 0 : static_cast<int>(got);
  }
  void write(const void* bytes, int size) const {
    ::send(fd, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  }
  void end() const {}

  int fd;
};

#else

struct channel {
  channel(SSL_CTX* context, int descriptor) : fd(descriptor), ssl(SSL_new(context)) {
    SSL_set_fd(ssl, fd);
    SSL_set_accept_state(ssl);
  }
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;
  ~channel() { SSL_free(ssl); }

  int read(void* into, std::size_t size) const {
    const int got = SSL_read(ssl, into, static_cast<int>(size));
    if (got > 0) return got;
    if (SSL_get_error(ssl, got) == SSL_ERROR_WANT_READ) return -1;
    ERR_clear_error();
    return 0;
  }
  void write(const void* bytes, int size) const { SSL_write(ssl, bytes, size); }
  void end() const {
    if (SSL_get_shutdown(ssl) == SSL_RECEIVED_SHUTDOWN) SSL_shutdown(ssl);
  }

  int fd;
  SSL* ssl;
};

#endif

class epoll_server {
 public:
#ifdef GYRE_LAB_PLAIN
  static constexpr bool is_plain = true;
#endif

  static void serve(int listener, const lab::tls::credentials& own) {
    const lab::tls::context context = lab::tls::make_server_context(own);
    // Otherwise OpenSSL reads the head of a record by itself.
    SSL_CTX_set_read_ahead(context.get(), 1);
    const int epoll = lab::network::checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    watch(epoll, listener, EPOLLIN, nullptr);
    std::array<epoll_event, 512> events;
    for (;;) {
      const int ready = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < ready; ++i) {
        auto* const served = static_cast<channel*>(events[static_cast<std::size_t>(i)].data.ptr);
        if (served == nullptr) {
          accept_all(epoll, listener, context.get());
        } else {
          answer(served);
        }
      }
    }
  }

 private:
  static void watch(int epoll, int fd, std::uint32_t events, channel* served) {
    epoll_event wanted{.events = events, .data = {.ptr = served}};
    lab::network::checked(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &wanted), "epoll_ctl");
  }

  static void accept_all(int epoll, int listener, SSL_CTX* context) {
    for (;;) {
      const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      watch(epoll, fd, EPOLLIN | EPOLLET, new channel(context, fd));
    }
  }

  static void answer(channel* served) {
    static std::array<std::byte, 64 * 1024> buffer;
    for (;;) {
      const int got = served->read(buffer.data(), buffer.size());
      if (got < 0) return;
      if (got == 0) break;
      served->write(buffer.data(), got);
    }
    served->end();
    close(served->fd);
    delete served;
  }
};

}  // namespace

int main(int argc, char** argv) { lab::tls::contender_main<epoll_server>(argc, argv); }
