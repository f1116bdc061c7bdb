// SPDX-License-Identifier: Apache-2.0
// libevent: an event for the listener and a bufferevent per connection.
#include <lab/experiments/connections/workload.hpp>
#include <lab/harness/libevent_base.hpp>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include <sys/socket.h>

#include <new>

namespace {

class libevent_server {
 public:
  static void serve(int listener) {
    event_base* const base = lab::make_libevent_base().release();
    event* const accepting = event_new(base, listener, EV_READ | EV_PERSIST, &on_connection, base);
    if (accepting == nullptr) throw std::bad_alloc();
    event_add(accepting, nullptr);
    event_base_dispatch(base);
  }

 private:
  static void on_connection(evutil_socket_t listener, short, void* base) {
    for (;;) {
      const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      bufferevent* const event =
          bufferevent_socket_new(static_cast<event_base*>(base), fd, BEV_OPT_CLOSE_ON_FREE);
      if (event == nullptr) throw std::bad_alloc();
      bufferevent_setcb(event, &on_read, nullptr, &on_end, nullptr);
      bufferevent_enable(event, EV_READ | EV_WRITE);
    }
  }

  static void on_read(bufferevent* connection, void*) {
    evbuffer_add_buffer(bufferevent_get_output(connection), bufferevent_get_input(connection));
  }

  static void on_end(bufferevent* connection, short, void*) { bufferevent_free(connection); }
};

}  // namespace

int main(int argc, char** argv) {
  lab::connections::contender_main<libevent_server>(argc, argv,
                                                    {{"libevent", event_get_version()}});
}
