// SPDX-License-Identifier: Apache-2.0
// Tests of TLS over sockets whose system calls fail.
#include <gyre/tls/tls_stream.hpp>

#include <gyre/testing/system_call_faults.hpp>
#include <gyre/tls/tls_test_support.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace tls_socket_faults_test {
namespace {

using namespace gyre::tls::test;

// TCP's own limit of time is no limit of the handshake.
TEST(TlsSocketFaults, ATimeoutOfTheSocketIsToldAsItsOwn) {
  gyre::loop loop;
  auto [server_end, client_end] = socket_pair(loop);
  const auto context = gyre::tls::tls_context::client(trusting());
  ASSERT_EQ(::send(server_end.fd(), "x", 1, 0), 1);  // io_uring waits for bytes before the call
  std::error_code error;
  std::string text;
  const gyre::testing::fault silent("recv", ETIMEDOUT, {.times = -1});
  gyre::sync_wait(
      loop, catching(gyre::tls::connect(std::move(client_end), "localhost", context), error, text));
  EXPECT_EQ(error, std::error_code(ETIMEDOUT, std::system_category())) << text;
}

}  // namespace
}  // namespace tls_socket_faults_test
