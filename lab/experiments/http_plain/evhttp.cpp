// SPDX-License-Identifier: Apache-2.0
// libevent's evhttp: reads and writes of at most 1 MiB, bodies moved from input to output, files by
// a segment that all answers share. Connections inherit TCP_NODELAY from the listener.
#include <lab/harness/http/workload.hpp>
#include <lab/harness/libevent_base.hpp>
#include <lab/harness/network/socket.hpp>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>

#include <unistd.h>

#include <new>
#include <string>

namespace {

using lab::http::site;

class evhttp_server {
 public:
  static void serve(int listener, const site& site) {
    event_base* const base = lab::make_libevent_base().release();
    evhttp* const server = evhttp_new(base);
    if (server == nullptr) throw std::bad_alloc();
    file_ =
        evbuffer_file_segment_new(dup(site.file), 0, lab::http::file_bytes, EVBUF_FS_CLOSE_ON_FREE);
    out_ = evbuffer_new();
    if (file_ == nullptr || out_ == nullptr) throw std::bad_alloc();
    evhttp_set_bevcb(server, &make_connection, nullptr);
    evhttp_set_default_content_type(server, nullptr);
    evhttp_set_cb(server, "/json", &json, nullptr);
    evhttp_set_cb(server, "/file", &file, nullptr);
    evhttp_set_gencb(server, &other, nullptr);
    lab::network::disable_delay(listener);
    if (evhttp_accept_socket(server, listener) != 0) throw std::bad_alloc();
    event_base_dispatch(base);
  }

 private:
  static bufferevent* make_connection(event_base* base, void*) {
    bufferevent* const made = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (made == nullptr) return nullptr;
    constexpr std::size_t most = std::size_t{1} << 20;
    bufferevent_set_max_single_read(made, most);
    bufferevent_set_max_single_write(made, most);
    return made;
  }

  static void reply(evhttp_request* request, const char* type, evbuffer* body) {
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", type);
    evhttp_send_reply(request, HTTP_OK, "OK", body);
  }

  static void json(evhttp_request* request, void*) {
    const std::string text = lab::http::make_json();
    evbuffer_add(out_, text.data(), text.size());
    reply(request, lab::http::json_type.data(), out_);
  }

  static void file(evhttp_request* request, void*) {
    evbuffer_add_file_segment(out_, file_, 0, -1);
    reply(request, lab::http::bytes_type.data(), out_);
  }

  static void other(evhttp_request* request, void*) {
    if (evhttp_request_get_command(request) == EVHTTP_REQ_POST) {
      reply(request, lab::http::bytes_type.data(), evhttp_request_get_input_buffer(request));
      return;
    }
    evbuffer_add(out_, lab::http::hello.data(), lab::http::hello.size());
    reply(request, lab::http::text_type.data(), out_);
  }

  static inline evbuffer_file_segment* file_ = nullptr;
  static inline evbuffer* out_ = nullptr;  // send_reply empties it
};

}  // namespace

int main(int argc, char** argv) {
  lab::http::contender_main<evhttp_server>(argc, argv, {{"libevent", event_get_version()}});
}
