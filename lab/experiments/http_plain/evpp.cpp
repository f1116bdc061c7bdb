// SPDX-License-Identifier: Apache-2.0
// evpp's HTTP server, with no threads beside the listening one.
#include <lab/harness/http/workload.hpp>

#include <event2/http.h>
#include <evpp/event_loop.h>
#include <evpp/http/context.h>
#include <evpp/http/http_server.h>

#include <unistd.h>

#include <cstdint>
#include <string>

namespace {

using lab::http::site;

class evpp_server {
 public:
  static void serve_at(std::uint16_t port, const site&) {
    evpp::http::Server server(0);
    server.RegisterHandler("/json", &json);
    server.RegisterDefaultHandler(&other);
    server.Init(port);
    server.Start();
    for (;;) pause();
  }

 private:
  static void json(evpp::EventLoop*, const evpp::http::ContextPtr& asked,
                   const evpp::http::HTTPSendResponseCallback& send) {
    asked->AddResponseHeader("Content-Type", std::string(lab::http::json_type));
    send(lab::http::make_json());
  }

  static void other(evpp::EventLoop*, const evpp::http::ContextPtr& asked,
                    const evpp::http::HTTPSendResponseCallback& send) {
    const bool is_echo = asked->req()->type == EVHTTP_REQ_POST;
    asked->AddResponseHeader("Content-Type",
                             std::string(is_echo ? lab::http::bytes_type : lab::http::text_type));
    send(is_echo ? asked->body().ToString() : std::string(lab::http::hello));
  }
};

}  // namespace

int main(int argc, char** argv) { lab::http::contender_main<evpp_server>(argc, argv); }
