// SPDX-License-Identifier: Apache-2.0
// Every field of every struct of counts becomes a sample. A new field fails to compile here, and in
// the struct's write_metrics(), until both name it; tools/check_layout finds structs without one.
#include <gyre/base/slab.hpp>
#include <gyre/engines/nats/client_options.hpp>
#include <gyre/engines/nats/service_info.hpp>
#include <gyre/engines/postgres/client_options.hpp>
#include <gyre/engines/redis/cache_options.hpp>
#include <gyre/engines/redis/client_options.hpp>
#include <gyre/engines/work/queue.hpp>
#include <gyre/engines/work/worker_options.hpp>
#include <gyre/exec/loop_metrics.hpp>
#include <gyre/http/access_log_writer.hpp>
#include <gyre/http/client_options.hpp>
#include <gyre/http/concurrency_limit.hpp>
#include <gyre/http/route_metrics.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/websocket_broadcast.hpp>
#include <gyre/metrics/early_counts.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/net/connection_pool.hpp>
#include <gyre/net/reconnecting_client_options.hpp>
#include <gyre/net/resolver_options.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/net/tcp_server_options.hpp>
#include <gyre/net/udp_server_options.hpp>
#include <gyre/pool/pool_options.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/sync/async_cache.hpp>
#include <gyre/sync/keyed_rate_limiter.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace every_count_test {
namespace {

using gyre::metrics::exposition;
using gyre::metrics::exposition_format;

// Gives the fields values of their own, and finds these in the samples. The names of counters end
// with _total, in both formats.
class every_field {
 public:
  template <class... Fields>
  explicit every_field(Fields&... fields) {
    (fill(fields), ...);
  }
  template <class Counts>
  void expect_in(const Counts& counts) const {
    for (const auto format : {exposition_format::text, exposition_format::open_metrics}) {
      exposition samples(format);
      write_metrics(samples, counts);
      const std::string text = samples.text();
      if (format == exposition_format::text) append_to_file(text);
      for (const std::uint64_t value : values_) {
        EXPECT_TRUE(text.contains(' ' + std::to_string(value) + '\n')) << value << " in\n" << text;
      }
      expect_conventions(text);
    }
  }

 private:
  template <std::integral Number>
  void fill(Number& field) {
    values_.push_back(next_);
    field = static_cast<Number>(next_++);
  }
  void fill(gyre::histogram& durations) {
    values_.push_back(next_);
    for (std::uint64_t i = 0; i < next_; ++i) durations.record(std::chrono::milliseconds{1});
    ++next_;
  }

  // For promtool_test.py. An object is a text of its own, because two may have the same samples.
  static void append_to_file(const std::string& text) {
    const char* const path = std::getenv("GYRE_EXPOSITION_FILE");
    if (path != nullptr) std::ofstream(path, std::ios::app) << text << '\0';
  }

  static void expect_conventions(const std::string& text) {
    std::string_view rest = text;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(line.size() + 1);
      if (!line.starts_with("# TYPE ")) continue;
      EXPECT_TRUE(line.starts_with("# TYPE gyre_")) << line;
      const bool is_counter = line.ends_with(" counter");
      if (is_counter && !text.ends_with("# EOF\n")) {
        EXPECT_TRUE(line.ends_with("_total counter")) << line;
      }
      if (!is_counter) {
        EXPECT_FALSE(line.contains("_total")) << line;
      }
    }
  }

  std::uint64_t next_ = 7001;
  std::vector<std::uint64_t> values_;
};

TEST(EveryCount, BaseAndSyncAreWritten) {
  gyre::slab_stats slab;
  {
    auto& [a, b, c, d, e, f, g, h] = slab;
    every_field(a, b, c, d, e, f, g, h).expect_in(slab);
  }
  gyre::async_cache_statistics cache;
  {
    auto& [a, b, c, d, e] = cache;
    every_field(a, b, c, d, e).expect_in(cache);
  }
  gyre::keyed_rate_limiter_metrics limiter;
  auto& [a, b, c] = limiter;
  every_field(a, b, c).expect_in(limiter);
}

TEST(EveryCount, LoopsAndPoolsAreWritten) {
  gyre::loop_metrics loop;
  auto& [io, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = loop;
  io = "uring";
  every_field(b, c, d, e, f, g, h, i, j, k, l, m, n, o, p).expect_in(loop);
  exposition samples;
  write_metrics(samples, loop);
  EXPECT_TRUE(samples.text().contains("gyre_loop_info{io=\"uring\"} 1\n"));
  gyre::thread_pool_metrics pool;
  {
    auto& [p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15] = pool;
    every_field(p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15).expect_in(pool);
  }
  gyre::runtime_metrics runtime;
  auto& [loops, own_pool, tasks] = runtime;
  every_field(loops.turns, own_pool.workers, tasks).expect_in(runtime);
}

TEST(EveryCount, NetIsWritten) {
  gyre::net::connection_metrics connection;
  {
    auto& [a, b, c] = connection;
    every_field(a, b, c).expect_in(connection);
  }
  gyre::net::tcp_server_metrics server;
  {
    auto& [a, b, c, d, e, f, traffic] = server;
    every_field(a, b, c, d, e, f, traffic.messages).expect_in(server);
  }
  gyre::net::tcp_client_metrics client;
  {
    auto& [a, b, c, traffic] = client;
    every_field(a, b, c, traffic.messages).expect_in(client);
  }
  gyre::net::udp_server_metrics udp;
  {
    auto& [a, b, c, d, e, f, g] = udp;
    every_field(a, b, c, d, e, f, g).expect_in(udp);
  }
  gyre::net::connection_pool_metrics pool;
  {
    auto& [a, b, c, d, e, f, g] = pool;
    every_field(a, b, c, d, e, f, g).expect_in(pool);
  }
  gyre::net::reconnecting_client_metrics reconnecting;
  {
    auto& [a, b, c, d, e, f] = reconnecting;
    every_field(a, b, c, d, e, f).expect_in(reconnecting);
  }
  gyre::net::dns_cache_metrics dns;
  auto& [a, b, c, d] = dns;
  every_field(a, b, c, d).expect_in(dns);
}

TEST(EveryCount, HttpIsWritten) {
  gyre::http::server_metrics server;
  {
    auto& [a, b, c, d, e, f, g, h, i, http2, tcp] = server;
    auto& [j, k, l, m, n] = http2;
    every_field(a, b, c, d, e, f, g, h, i, j, k, l, m, n, tcp.accepted).expect_in(server);
  }
  gyre::http::client_metrics client;
  {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = client;
    every_field(a, b, c, d, e, f, g, h, i, j, k, l).expect_in(client);
  }
  gyre::http::access_log_writer_metrics log;
  {
    auto& [a, b, c] = log;
    every_field(a, b, c).expect_in(log);
  }
  gyre::http::concurrency_limit_metrics limit;
  {
    auto& [a, b, c, d, e] = limit;
    every_field(a, b, c, d, e).expect_in(limit);
  }
  gyre::http::websocket_broadcast_metrics broadcast;
  {
    auto& [a, b, c, d, e] = broadcast;
    every_field(a, b, c, d, e).expect_in(broadcast);
  }
  gyre::http::route_metrics route;
  auto& [method, pattern, responses, cut, body_bytes, durations] = route;
  method = "GET";
  pattern = "/users/{id}";
  every_field(responses[1], responses[2], responses[3], responses[4], responses[5], cut, body_bytes,
              durations)
      .expect_in(route);
  exposition samples;
  write_metrics(samples, route);
  EXPECT_TRUE(samples.text().contains("{method=\"GET\",route=\"/users/{id}\"}"));
}

TEST(EveryCount, EnginesAreWritten) {
  gyre::nats::client_metrics nats;
  {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = nats;
    every_field(a, b, c, d, e, f, g, h, i, j, k, l, m).expect_in(nats);
  }
  gyre::nats::endpoint_stats endpoint;
  {
    auto& [info, a, b, c, error, time, d, e] = endpoint;
    info.name = "sum";
    error = "a text";
    time = std::chrono::seconds{7654321};
    every_field(a, b, c, d, e).expect_in(endpoint);
    exposition samples;
    write_metrics(samples, endpoint);
    EXPECT_TRUE(samples.text().contains("_seconds_total{endpoint=\"sum\"} 7654321\n"));
  }
  gyre::postgres::client_metrics postgres;
  {
    auto& [a, b, c, d, e, f, g, h, i] = postgres;
    every_field(a, b, c, d, e, f, g, h, i).expect_in(postgres);
  }
  gyre::redis::client_metrics redis;
  {
    auto& [a, b, c, d, e, f] = redis;
    every_field(a, b, c, d, e, f).expect_in(redis);
  }
  gyre::redis::cache_metrics cache;
  {
    auto& [a, b, c, d, e] = cache;
    every_field(a, b, c, d, e).expect_in(cache);
  }
  gyre::work::worker_metrics worker;
  {
    auto& [a, b, c, d, e, f, g, h, i, j, k, error] = worker;
    error = "a text";
    every_field(a, b, c, d, e, f, g, h, i, j, k).expect_in(worker);
  }
  gyre::work::kind_statistics kind;
  auto& [name, a, b, c, d, e, f, oldest] = kind;
  name = "resize";
  oldest = 9'876'000;
  every_field(a, b, c, d, e, f).expect_in(kind);
  exposition samples;
  write_metrics(samples, kind);
  EXPECT_TRUE(samples.text().contains("gyre_queue_oldest_ready_seconds{kind=\"resize\"} 9876\n"));
}

}  // namespace
}  // namespace every_count_test
