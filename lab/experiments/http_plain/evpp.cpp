// SPDX-License-Identifier: Apache-2.0
// evpp's HTTP service, in the loop of its only thread. Its http::Server would do the same in more
// steps, but it listens before it knows its handlers, so that it refuses early requests.
#include <lab/harness/http/workload.hpp>

#include <event2/bufferevent.h>
#include <event2/http.h>
#include <evpp/event_loop.h>
#include <evpp/http/context.h>
#include <evpp/http/service.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace {

using lab::http::site;

class evpp_server {
 public:
  static void serve_at(std::uint16_t port, const site&) {
    evpp::EventLoop loop;
    evpp::http::Service service(&loop);
    service.RegisterHandler("/json", &json);
    service.RegisterDefaultHandler(&other);
    if (service.Listen(port)) loop.Run();
  }

 private:
  static void json(evpp::EventLoop*, const evpp::http::ContextPtr& asked,
                   const evpp::http::HTTPSendResponseCallback& send) {
    asked->AddResponseHeader("Content-Type", std::string(lab::http::json_type));
    send(lab::http::make_json());
  }

  static void other(evpp::EventLoop*, const evpp::http::ContextPtr& asked,
                    const evpp::http::HTTPSendResponseCallback& send) {
    if (evhttp_request_get_command(asked->req()) == EVHTTP_REQ_POST) {
      write_in_one_piece(asked->req());
      asked->AddResponseHeader("Content-Type", std::string(lab::http::bytes_type));
      send(asked->body().ToString());
      return;
    }
    asked->AddResponseHeader("Content-Type", std::string(lab::http::text_type));
    send(std::string(lab::http::hello));
  }

  // libevent writes 16 KiB at a time, and evpp has no option for that and none to disable Nagle's
  // algorithm: the rest of an answer would wait for the client's delayed acknowledgement.
  static void write_in_one_piece(evhttp_request* asked) {
    constexpr std::size_t most = std::size_t{1} << 20;
    bufferevent* const connection =
        evhttp_connection_get_bufferevent(evhttp_request_get_connection(asked));
    bufferevent_set_max_single_read(connection, most);
    bufferevent_set_max_single_write(connection, most);
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::http::contender_main<evpp_server>(argc, argv, {{"evpp", "0.7"}});
}
