// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of tls's headers.
#include <gyre/gyre.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <tests/header_examples/support.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

namespace tls_test {
namespace {

using gyre::tls::test::authority;
using gyre::tls::test::issued;
using gyre::tls::test::trusting;

// gyre/tls/tls_context.hpp
gyre::tls::tls_context make_context() {
  // clang-format off
  auto context = gyre::tls::tls_context::server(
      {.certificates = {{.chain = gyre::tls::pem::file("site.pem"),
                         .key = gyre::tls::pem::file("site.key")}},
       .application_protocols = {"http/1.1"}});
  context.reload();  // reads the files again, for new connections
  // clang-format on
  return context;
}

gyre::tls::tls_context context_of_files() {
  const gyre::test::temporary_folder folder;
  const issued own = authority().issue();
  folder.make_file("site.pem", own.certificate);
  folder.make_file("site.key", own.key);
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(folder / "");
  auto context = make_context();
  std::filesystem::current_path(before);
  return context;
}

gyre::task<> serve(gyre::net::tcp_listener& listener, gyre::tls::tls_context context, int times) {
  for (; times > 0; --times) {
    auto accepted = co_await listener.accept();
    auto handshake = gyre::as_expected(gyre::tls::accept(std::move(accepted), context));
    auto secure = co_await std::move(handshake);
    if (!secure) continue;
    auto request = co_await secure->receive();
    co_await secure->write_all("200 OK");
    request = co_await secure->receive();
    EXPECT_TRUE(request.empty());
  }
}

// gyre/tls/tls_stream.hpp
gyre::task<gyre::tls::tls_stream> visit(std::string server, gyre::tls::tls_context context) {
  auto secure = co_await gyre::tls::connect(server, context);  // such as "example.org:443"
  co_await secure.write_all("GET / HTTP/1.0\r\n\r\n");
  auto reply = co_await secure.receive();
  co_await secure.shutdown();
  EXPECT_EQ(reply.text(), "200 OK");
  // gyre/tls/connection_info.hpp
  const bool speaks_http2 = secure.info().application_protocol == "h2";
  EXPECT_FALSE(speaks_http2);
  // gyre/tls/channel_binding.hpp
  const auto channel = gyre::tls::server_end_point(*secure.layer());
  EXPECT_EQ(channel.size(), 32U);
  co_return secure;
}

// gyre/tls/session.hpp
gyre::task<> visit_again(std::string server, gyre::tls::tls_context context) {
  auto first = co_await visit(server, context);
  gyre::tls::session kept = first.session();
  auto second = co_await gyre::tls::connect(server, context, kept);
  EXPECT_TRUE(second.info().resumed);
  co_await second.write_all("GET / HTTP/1.0\r\n\r\n");
  auto reply = co_await second.receive();
}

// gyre/tls/error.hpp
gyre::task<> visit_without_trust(std::string server) {
  auto secure = co_await gyre::as_expected(gyre::tls::connect(server));
  if (!secure && secure.error() == gyre::tls::errc::certificate_expired) co_return;
  EXPECT_EQ(secure.error(), gyre::tls::errc::certificate_unknown_issuer);
}

TEST(TlsExamples, AServerAndItsClients) {
  gyre::loop loop;
  gyre::net::tcp_listener listener(loop, header_examples::any_port());
  const std::string server = listener.local_endpoint().to_string();
  const auto client = gyre::tls::tls_context::client(trusting());
  auto serving = serve(listener, context_of_files(), 3);
  auto visiting = visit_again(server, client);
  gyre::sync_wait(loop, gyre::when_all(std::move(serving), [](auto first, auto to) -> gyre::task<> {
                    co_await std::move(first);
                    co_await visit_without_trust(to);
                  }(std::move(visiting), server)));
}

// gyre/tls/transport.hpp
TEST(TlsExamples, AServerWithCallbacks) {
  gyre::loop loop;
  const auto at = header_examples::any_port();
  const auto context = context_of_files();
  // clang-format off
  gyre::net::tcp_server_options options;
  options.transport = gyre::tls::server_transport(context);
  gyre::net::tcp_server server(loop, at, options);  // such as ":8443"
  server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    connection.send(input.bytes());  // in plain: the transport encrypts
    input.consume_all();
  });
  // clang-format on
  server.start();
  const auto ask = [](std::string to) -> gyre::task<std::string> {
    const auto client = gyre::tls::tls_context::client(trusting());
    auto secure = co_await gyre::tls::connect(to, client);
    co_await secure.write_all("hello");
    auto reply = co_await secure.receive();
    co_return std::string(reply.text());
  };
  EXPECT_EQ(gyre::sync_wait(loop, ask(server.local_endpoint().to_string())), "hello");
}

}  // namespace
}  // namespace tls_test
