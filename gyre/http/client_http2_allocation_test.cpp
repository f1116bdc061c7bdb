// SPDX-License-Identifier: Apache-2.0
// Tests that requests of a client over HTTP/2 allocate no more than those over HTTP/1.1, and leave
// nothing behind: every allocation of this program is counted.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/client.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/allocations.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace http_client_http2_allocation_test {
namespace {

using namespace gyre::net::test;
using gyre::task;
using gyre::http::client_options;
using gyre::http::request;
using gyre::http::response;

class HttpClientHttp2Allocation : public testing::Test {
 protected:
  HttpClientHttp2Allocation() {
    server_.get("/", [](request&) { return response::borrowed("text/plain", "Hello, world!"); });
    server_.start();
  }
  ~HttpClientHttp2Allocation() override { gyre::sync_wait(loop_, stop()); }

  struct counts {
    std::size_t allocations;
    std::int64_t blocks;
  };
  /// Returns the allocations of 200 requests, after some that let memory grow.
  counts count(bool uses_http2) {
    client_options options;
    options.http2.prior_knowledge = uses_http2;
    gyre::http::client client(loop_, options);
    send(client, 20);
    const gyre::testing::allocation_count during;
    send(client, 200);
    const counts result{during.allocations(), during.slab_blocks()};
    EXPECT_EQ(client.metrics().http2_connections, uses_http2 ? 1U : 0U);
    return result;
  }

 private:
  void send(gyre::http::client& client, int count) {
    const std::string url = "http://" + server_.local_endpoint().to_string() + "/";
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(gyre::sync_wait(loop_, client.get(url)).body(), "Hello, world!");
    }
    settle(loop_);
  }
  task<> stop() { co_await server_.stop_async(0s); }

  gyre::loop loop_;
  gyre::http::server server_{loop_, any_port()};
};

TEST_F(HttpClientHttp2Allocation, NoMoreThanWithHttp1) {
  const counts http1 = count(false);
  const counts http2 = count(true);
  EXPECT_LE(http2.allocations, http1.allocations + 20);
  EXPECT_LE(http2.blocks, 4);
  RecordProperty("http1", static_cast<int>(http1.allocations));
  RecordProperty("http2", static_cast<int>(http2.allocations));
}

}  // namespace
}  // namespace http_client_http2_allocation_test
