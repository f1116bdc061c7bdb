// SPDX-License-Identifier: Apache-2.0
// libevent's bufferevents over OpenSSL. Input goes to output as whole buffers, without a copy.
#include <lab/harness/libevent_base.hpp>
#include <lab/harness/tls/workload.hpp>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstddef>
#include <memory>
#include <new>

namespace {

class libevent_server {
 public:
  static void serve(int listener, const lab::tls::credentials& own) {
    const lab::libevent_base base = lab::make_libevent_base();
    const lab::tls::context tls = lab::tls::make_server_context(own);
    const std::unique_ptr<evconnlistener, decltype(&evconnlistener_free)> accepting(
        evconnlistener_new(base.get(), &on_accept, tls.get(), LEV_OPT_CLOSE_ON_FREE, 0, listener),
        &evconnlistener_free);
    if (!accepting) throw std::bad_alloc();
    event_base_dispatch(base.get());
  }

 private:
  static constexpr std::size_t most_at_once = std::size_t{1} << 20;

  static void on_accept(evconnlistener* listener, evutil_socket_t fd, sockaddr*, int, void* tls) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    bufferevent* const made = bufferevent_openssl_socket_new(
        evconnlistener_get_base(listener), fd, SSL_new(static_cast<SSL_CTX*>(tls)),
        BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (made == nullptr) throw std::bad_alloc();
    bufferevent_set_max_single_read(made, most_at_once);
    bufferevent_set_max_single_write(made, most_at_once);
    bufferevent_setcb(made, &on_read, nullptr, &on_event, nullptr);
    bufferevent_enable(made, EV_READ | EV_WRITE);
  }

  static void on_read(bufferevent* connection, void*) {
    evbuffer_add_buffer(bufferevent_get_output(connection), bufferevent_get_input(connection));
  }

  static void on_event(bufferevent* connection, short events, void*) {
    if ((events & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) == 0) return;
    if ((events & BEV_EVENT_EOF) != 0) SSL_shutdown(bufferevent_openssl_get_ssl(connection));
    bufferevent_free(connection);
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::tls::contender_main<libevent_server>(argc, argv, {{"libevent", event_get_version()}});
}
