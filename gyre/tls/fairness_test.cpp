// SPDX-License-Identifier: Apache-2.0
// Tests that a quiet TLS connection does not wait for a round of busy ones. They count bytes.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/fairness_test_support.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/tls/tls_test_support.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tls_fairness_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::tls::test;
using gyre::task;
using gyre::io::test::quiet_connection;
using gyre::tls::tls_context;
using gyre::tls::tls_stream;

constexpr std::size_t busy_ones = 64;
// A ping is encrypted and sent by a task of the turn after the one in which it is due.
constexpr std::size_t most_meanwhile = 2 * quiet_connection::most_meanwhile;

class TlsFairness : public testing::Test {
 protected:
  TlsFairness() {
    const auto server = tls_context::server(serving());
    const auto client = tls_context::client(trusting());
    for (std::size_t i = 0; i <= busy_ones; ++i) {
      made_.push_back(std::make_unique<connection>(loop_, server, client));
    }
  }
  tls_stream& quiet_client() { return made_.back()->client_end; }

  task<> send_ping() { co_await quiet_client().write_all("ping"); }
  task<> send_for_ever(tls_stream& client) {
    const std::string piece(100'000, 'x');
    while (!waits_.is_done()) co_await client.write_all(piece);
    co_await client.shutdown();
  }
  task<> receive_for_ever(tls_stream& server) {
    for (;;) {
      const auto bytes = co_await server.receive();
      if (bytes.empty()) co_return;
      waits_.busy_one_moved(bytes.size());
    }
  }
  task<> receive_pings(tls_stream& server) {
    while (!waits_.is_done()) {
      co_await server.receive();
      waits_.served();
    }
  }

  // The time of a turn is not to end it.
  gyre::loop loop_{gyre::loop_options{.io_time = 24h}};
  std::vector<std::unique_ptr<connection>> made_;
  quiet_connection waits_{[this] { gyre::spawn(loop_, send_ping()); }};
};

TEST_F(TlsFairness, AQuietStreamDoesNotWaitForARoundOfBusyOnes) {
  std::vector<task<>> all;
  for (std::size_t i = 0; i < busy_ones; ++i) {
    all.push_back(send_for_ever(made_[i]->client_end));
    all.push_back(receive_for_ever(made_[i]->server_end));
  }
  all.push_back(receive_pings(made_.back()->server_end));
  gyre::sync_wait(loop_, gyre::when_all(std::move(all)));
  EXPECT_LE(waits_.most(), most_meanwhile);
}

}  // namespace
}  // namespace tls_fairness_test
