// SPDX-License-Identifier: Apache-2.0
// drogon: one I/O thread, handlers that answer at once, files by its sendfile. Responses are made
// for each request: one that drogon caches lacks the `Connection: close` that a client asks for.
#include <lab/harness/http/workload.hpp>
#include <lab/harness/network/socket.hpp>

#include <drogon/drogon.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace {

using lab::http::site;

class drogon_server {
 public:
  static void serve_at(std::uint16_t port, const site& site) {
    drogon::HttpAppFramework& app = drogon::app();
    app.registerHandler("/plain", &say_hello, {drogon::Get});
    app.registerHandler("/json", &give_json, {drogon::Get});
    app.registerHandler(
        "/file",
        [&site](const drogon::HttpRequestPtr&, respond&& send) {
          send(drogon::HttpResponse::newFileResponse(site.file_path, "", drogon::CT_CUSTOM,
                                                     std::string(lab::http::bytes_type)));
        },
        {drogon::Get});
    for (const char* const target : {"/plain", "/echo", "/json", "/file"}) {
      app.registerHandler(target, &echo, {drogon::Post});
    }
    app.registerHandlerViaRegex("/.*", &say_hello, {drogon::Get});
    app.registerHandlerViaRegex("/.*", &echo, {drogon::Post});
    app.setLogLevel(trantor::Logger::kFatal)
        .enableServerHeader(false)
        .setUploadPath(GYRE_LAB_DROGON_FOLDER)
        .setAfterAcceptSockOptCallback(&lab::network::disable_delay)
        .addListener("127.0.0.1", port)
        .setThreadNum(1)
        .run();
  }

 private:
  using respond = std::function<void(const drogon::HttpResponsePtr&)>;

  static void send_bytes(const respond& send, std::string_view type, std::string&& bytes) {
    const drogon::HttpResponsePtr answer = drogon::HttpResponse::newHttpResponse();
    answer->setContentTypeString(type);
    answer->setBody(std::move(bytes));
    send(answer);
  }

  static void say_hello(const drogon::HttpRequestPtr&, respond&& send) {
    send_bytes(send, lab::http::text_type, std::string(lab::http::hello));
  }

  static void give_json(const drogon::HttpRequestPtr&, respond&& send) {
    send_bytes(send, lab::http::json_type, lab::http::make_json());
  }

  static void echo(const drogon::HttpRequestPtr& request, respond&& send) {
    send_bytes(send, lab::http::bytes_type, std::string(request->body()));
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::http::contender_main<drogon_server>(argc, argv, {{"drogon", drogon::getVersion()}});
}
