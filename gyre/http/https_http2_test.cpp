// SPDX-License-Identifier: Apache-2.0
// Tests of http::server over TLS with HTTP/2, which ALPN chooses.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/http2_test_support.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/tls/tls_stream.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <gyre/tls/transport.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace https_http2_test {
namespace {

using namespace gyre::http::test;
using namespace gyre::tls::test;
using gyre::task;
using gyre::net::test::any_port;
using gyre::tls::tls_context;
using testing::HasSubstr;
using testing::StartsWith;

struct answer {
  std::string protocol;  // chosen by ALPN
  std::string text;      // frames as lines, or the response of HTTP/1.1
};

std::string request_bytes() {
  return client_hello() + frame(headers_frame, end_stream | end_headers, 1,
                                block_of({{":method", "GET"},
                                          {":scheme", "https"},
                                          {":authority", "localhost"},
                                          {":path", "/"}}));
}

task<answer> ask(std::string authority, std::vector<std::string> protocols) {
  auto options = trusting();
  options.application_protocols = std::move(protocols);
  const auto context = tls_context::client(options);
  auto secure = co_await gyre::tls::connect(authority, context);
  answer result;
  result.protocol = secure.info().application_protocol;
  if (result.protocol != "h2") {
    co_await secure.write_all("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    for (;;) {
      auto more = co_await secure.receive();
      if (more.empty()) co_return result;
      result.text += more.text();
    }
  }
  const std::string request = request_bytes();
  co_await secure.write_all(request);
  frame_printer printer;
  std::string bytes;
  while (result.text.find("DATA 1 end") == std::string::npos) {
    auto more = co_await secure.receive();
    if (more.empty()) break;
    bytes += more.text();
    result.text += printer.print(bytes);
  }
  co_return result;
}

class HttpsHttp2 : public testing::Test {
 protected:
  answer ask_server(std::vector<std::string> protocols, bool enabled = true,
                    std::vector<std::string> configured = {}) {
    gyre::http::server_options options;
    auto secure = serving();
    secure.application_protocols = std::move(configured);
    options.tcp.transport = gyre::tls::server_transport(tls_context::server(secure));
    options.http2.enabled = enabled;
    gyre::http::server server(loop_, any_port(), options);
    server.get("/", [](gyre::http::request& request) {
      return gyre::http::response::text("version " + std::to_string(request.major_version()));
    });
    server.start();
    const std::string authority = "localhost:" + std::to_string(server.local_endpoint().port());
    answer result = gyre::sync_wait(loop_, ask(authority, std::move(protocols)));
    gyre::sync_wait(loop_, stop(server));
    return result;
  }

 private:
  static task<> stop(gyre::http::server& server) {
    co_await server.stop_async(std::chrono::seconds{0});
  }

  gyre::loop loop_;
};

TEST_F(HttpsHttp2, IsChosenWhenTheClientOffersIt) {
  const answer got = ask_server({"http/1.1", "h2"});
  EXPECT_EQ(got.protocol, "h2");
  EXPECT_THAT(got.text, HasSubstr("DATA 1 end version 2\n"));
}

TEST_F(HttpsHttp2, IsNotChosenWhenTheClientDoesNotOfferIt) {
  EXPECT_EQ(ask_server({"http/1.1"}).protocol, "http/1.1");
  EXPECT_EQ(ask_server({"other"}).protocol, "");
  const answer got = ask_server({});
  EXPECT_EQ(got.protocol, "");
  EXPECT_THAT(got.text, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(got.text, HasSubstr("version 1"));
}

TEST_F(HttpsHttp2, IsNotChosenWhenTheServerDisablesIt) {
  EXPECT_EQ(ask_server({"h2", "http/1.1"}, false).protocol, "");
  EXPECT_EQ(ask_server({"h2", "http/1.1"}, true, {"http/1.1"}).protocol, "http/1.1");
  EXPECT_EQ(ask_server({"h2", "http/1.1"}, true, {"h2"}).protocol, "h2");
}

}  // namespace
}  // namespace https_http2_test
