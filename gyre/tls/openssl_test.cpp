// SPDX-License-Identifier: Apache-2.0
// Tests against the program openssl, where it is installed: s_client and s_server.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/process.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/tls/tls_stream.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <string>

namespace openssl_test {
namespace {

using namespace gyre::tls::test;
using gyre::task;
using gyre::io::process;
using gyre::io::stdio;
using gyre::tls::tls_context;

constexpr const char* program = "/usr/bin/openssl";

bool is_installed() { return ::access(program, X_OK) == 0; }

task<> echo_one(gyre::net::tcp_listener& listener, tls_context context) {
  auto accepted = co_await listener.accept();
  auto secure = co_await gyre::tls::accept(std::move(accepted), context);
  EXPECT_EQ(secure.info().server_name, "localhost");
  gyre::io::buffer line;
  const std::size_t size = co_await secure.read_until(line, "\n");
  co_await secure.write_all("echo: " + std::string(line.text().substr(0, size)));
  co_await secure.shutdown();
}

task<> run_client(process& client) {
  co_await client.input().write_all("hello\n");
  gyre::io::buffer got;
  const std::size_t size = co_await client.output().read_until(got, "\n");
  EXPECT_EQ(got.text().substr(0, size), "echo: hello\n");
  client.input().close();
  const auto status = co_await client.wait();
  EXPECT_EQ(status.code(), 0);
}

TEST(TlsWithOpenssl, ServesSClient) {
  if (!is_installed()) GTEST_SKIP() << "no openssl";
  gyre::loop loop;
  const gyre::test::temporary_folder folder;
  const std::string authorities = folder.make_file("ca.pem", authority().certificate());
  for (const char* const version : {"-tls1_2", "-tls1_3"}) {
    gyre::net::tcp_listener listener(loop,
                                     gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0));
    process client(loop,
                   {program, "s_client", "-quiet", "-verify_quiet", "-verify_return_error",
                    "-servername", "localhost", "-verify_hostname", "localhost", version, "-CAfile",
                    authorities, "-connect", listener.local_endpoint().to_string()},
                   {.input = stdio::pipe(), .output = stdio::pipe(), .error = stdio::null()});
    gyre::sync_wait(loop, gyre::when_all(echo_one(listener, tls_context::server(serving())),
                                         run_client(client)));
  }
}

task<> ask(process& server) {
  gyre::io::buffer printed;
  std::string to;
  while (to.empty()) {
    const std::size_t size = co_await server.output().read_until(printed, "\n");
    const std::string line(printed.text().substr(0, size - 1));
    printed.consume(size);
    if (line.starts_with("ACCEPT ")) to = line.substr(line.rfind(':') + 1);
  }
  const std::string at = "localhost:" + to;
  const auto context = tls_context::client(trusting());
  auto secure = co_await gyre::tls::connect(at, context);
  co_await secure.write_all("abcdef\n");
  gyre::io::buffer got;
  const std::size_t size = co_await secure.read_until(got, "\n");
  EXPECT_EQ(got.text().substr(0, size), "fedcba\n");
  auto first_session = secure.session();
  co_await secure.shutdown();
  auto again = co_await gyre::tls::connect(at, context, first_session);
  EXPECT_TRUE(again.info().resumed);
  server.kill(SIGTERM);
  co_await server.wait();
}

TEST(TlsWithOpenssl, IsServedBySServer) {
  if (!is_installed()) GTEST_SKIP() << "no openssl";
  gyre::loop loop;
  const gyre::test::temporary_folder folder;
  const issued own = authority().issue();
  const std::string chain = folder.make_file("chain.pem", own.certificate);
  const std::string key = folder.make_file("key.pem", own.key);
  process server(
      loop, {program, "s_server", "-accept", "127.0.0.1:0", "-rev", "-cert", chain, "-key", key},
      {.input = stdio::pipe(), .output = stdio::pipe(), .error = stdio::null()});
  gyre::sync_wait(loop, ask(server));
}

}  // namespace
}  // namespace openssl_test
