// SPDX-License-Identifier: Apache-2.0
// The code of docs/guide/tls.md.
#include <gyre/gyre.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <tests/header_examples/support.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <string>
#include <utility>

namespace tls_guide_test {
namespace {

using gyre::tls::test::authority;
using gyre::tls::test::issued;

// clang-format off
gyre::task<> greet(gyre::net::tcp_stream accepted, gyre::tls::tls_context context) {
  auto secure = co_await gyre::tls::accept(std::move(accepted), context);
  auto name = co_await secure.receive();
  co_await secure.write_all("hello ");
  co_await secure.write_all(std::move(name));
  co_await secure.shutdown();
}

gyre::task<> serve(gyre::net::tcp_listener& listener, gyre::tls::tls_context context) {
  auto accept_all = [&](gyre::scope& connections) -> gyre::task<> {
    for (;;) {
      auto accepted = co_await listener.accept();
      connections.spawn(greet(std::move(accepted), context));
    }
  };
  co_await gyre::with_scope(accept_all);
}

gyre::task<> ask(std::string server) {
  auto secure = co_await gyre::tls::connect(server);  // such as "localhost:8443"
  co_await secure.write_all("world");
  std::cout << (co_await secure.receive()).text() << '\n';
  co_await secure.shutdown();
}
// clang-format on

gyre::task<std::string> ask_with_trust(std::string server) {
  // clang-format off
  auto context = gyre::tls::tls_context::client(
      {.authorities = {gyre::tls::pem::file("chain.pem")}});
  auto secure = co_await gyre::tls::connect(server, context);
  // clang-format on
  co_await secure.write_all("world");
  std::string reply;
  while (reply.size() < 11) {
    const gyre::io::received part = co_await secure.receive();
    if (part.empty()) break;
    reply += part.text();
  }
  co_await secure.shutdown();
  co_return reply;
}

/// A temporary directory as the current one, with the files of the guide; chain.pem also has the
/// authority.
class guide_directory {
 public:
  guide_directory() {
    const issued own = authority().issue();
    std::ofstream("chain.pem") << own.certificate << authority().certificate();
    std::ofstream("key.pem") << own.key;
  }

 private:
  header_examples::own_directory here_;
};

gyre::tls::tls_context server_context() {
  // clang-format off
  auto context = gyre::tls::tls_context::server(
      {.certificates = {{.chain = gyre::tls::pem::file("chain.pem"),
                         .key = gyre::tls::pem::file("key.pem")}}});
  // clang-format on
  return context;
}

gyre::task<> ask_without_trust(gyre::net::tcp_listener& listener) {
  const std::string server = listener.local_endpoint().to_string();
  auto asked = co_await gyre::as_expected(ask(server));
  EXPECT_FALSE(asked.has_value());
  EXPECT_TRUE(!asked && (asked.error() == gyre::tls::errc::certificate_self_signed ||
                         asked.error() == gyre::tls::errc::certificate_unknown_issuer));
}

TEST(TlsGuide, AServerAnswersAClientThatTrustsIt) {
  const guide_directory files;
  gyre::loop loop;
  gyre::net::tcp_listener listener(loop, header_examples::any_port());
  auto both = gyre::when_any(serve(listener, server_context()),
                             ask_with_trust(listener.local_endpoint().to_string()));
  const auto ended = gyre::sync_wait(loop, std::move(both));
  EXPECT_EQ(std::get<1>(ended.values), "hello world");
}

TEST(TlsGuide, AClientOfTheSystemsAuthoritiesRefusesTheServer) {
  const guide_directory files;
  gyre::loop loop;
  gyre::net::tcp_listener listener(loop, header_examples::any_port());
  auto serving = gyre::as_expected(serve(listener, server_context()));
  // The refused handshake ends the server, too.
  gyre::sync_wait(loop, gyre::when_all(std::move(serving), ask_without_trust(listener)));
}

TEST(TlsGuide, AServerWithCallbacksTakesATransport) {
  const guide_directory files;
  gyre::loop loop;
  const auto context = server_context();
  const auto address = header_examples::any_port();
  // clang-format off
  gyre::net::tcp_server_options options;
  options.transport = gyre::tls::server_transport(context);
  gyre::net::tcp_server server(loop, address, options);  // such as ":8443"
  // clang-format on
  server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    connection.send("hello ");
    connection.send(input.bytes());
    input.consume_all();
  });
  server.start();
  EXPECT_EQ(gyre::sync_wait(loop, ask_with_trust(server.local_endpoint().to_string())),
            "hello world");
}

}  // namespace
}  // namespace tls_guide_test
