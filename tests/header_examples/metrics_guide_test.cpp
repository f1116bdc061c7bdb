// SPDX-License-Identifier: Apache-2.0
// The examples of docs/guide/metrics.md.
#include <gyre/base/slab.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/client.hpp>
#include <gyre/http/inspect_at.hpp>
#include <gyre/http/inspector.hpp>
#include <gyre/http/metrics_handler.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/trace_propagation.hpp>
#include <gyre/metrics/registry.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/runtime/runtime.hpp>
#include <tests/header_examples/support.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>

namespace metrics_guide_test {

using header_examples::any_port;
using namespace std::chrono_literals;

struct cart_metrics {
  std::uint64_t opened = 0;
  std::size_t open = 0;
};

void write_metrics(gyre::metrics::exposition& output, const cart_metrics& counts) {
  output.add_counter("shop_carts_opened_total", "Carts that were opened.", counts.opened);
  output.add_gauge("shop_carts_open", "Carts that are open.", counts.open);
}

namespace {

struct shop {
  cart_metrics metrics() const { return {.opened = 3, .open = 1}; }
};

// clang-format off
TEST(MetricsGuide, CollectsTheMetricsOfAProgram) {
  const gyre::steady_time begin{}, end{2s};
  gyre::loop loop;
  gyre::thread_pool pool(1);
  gyre::http::server server(loop, any_port());
  shop carts_of_shop;

  gyre::metrics::registry metrics;
  const auto counted_loop = metrics.add("network", loop);
  const auto counted_pool = metrics.add("workers", pool);
  const auto counted_server = metrics.add("shop", server);
  const auto counted_carts = metrics.add("carts", carts_of_shop);

  auto& orders = metrics.make_counter("shop_orders_total", "Orders that were placed.");
  auto& carts = metrics.make_gauge("shop_carts", "Carts that are not empty.");
  auto& paid = metrics.make_duration_histogram("shop_payment_seconds", "Time of a payment.");

  orders.add();
  carts.add(-1);
  paid.record(end - begin);

  auto& mails = metrics.make_counters("shop_mails_total", "Mails by their end.", {"end"},
                                      {.max_series = 20});
  mails.with({"sent"}).add();

  gyre::http::client backend(loop);
  const auto counted_backend = metrics.add("backend", loop, backend);

  const auto counted_slabs = metrics.add_function([](gyre::metrics::exposition& output) {
    write_metrics(output, gyre::read_slab_stats());
  });

  std::string text;
  const auto show = [&]() -> gyre::task<> {
    gyre::metrics::exposition page = co_await metrics.collect();
    std::cout << page.text();
    text = page.text();
  };
  gyre::sync_wait(loop, show());
  for (const std::string_view line :
       {"gyre_executor_up{name=\"network\"} 1", "gyre_pool_workers{name=\"workers\"} 1",
        "gyre_http_server_requests_total{name=\"shop\"} 0", "shop_orders_total 1", "shop_carts -1",
        "shop_payment_seconds_sum 2", "shop_mails_total{end=\"sent\"} 1",
        "gyre_http_client_requests_total{name=\"backend\"} 0", "gyre_slab_heaps ",
        "shop_carts_opened_total{name=\"carts\"} 3"}) {
    EXPECT_TRUE(text.contains("\n" + std::string(line))) << line;
  }
}

TEST(MetricsGuide, ServesTheMetrics) {
  const header_examples::own_directory directory;
  const std::string folder = std::filesystem::current_path().string();
  gyre::loop loop;
  gyre::metrics::registry metrics;
  gyre::http::server server(loop, any_port());
  server.get("/metrics", gyre::http::metrics_handler(metrics));

  gyre::http::inspector inspector(metrics, "unix:" + folder + "/inspect", {.records_tasks = true});
  const auto shown = inspector.show_connections("shop", server.tcp());
  inspector.start();

  server.use(gyre::http::trace_propagation());
  gyre::http::client traced(loop, {.sends_trace = true});
  EXPECT_TRUE(std::filesystem::exists("inspect"));
}

TEST(MetricsGuide, TheRuntimeHasAnInspector) {
  const header_examples::own_directory directory;
  const std::string folder = std::filesystem::current_path().string();

  gyre::http::inspector* pages = nullptr;
  gyre::runtime rt({.inspect = gyre::http::inspect_at("unix:" + folder + "/inspect", {},
                                                      [&](auto& one) { pages = &one; })});
  gyre::http::server server(rt.loops(), any_port());
  const auto counted_server = rt.registry().add("shop", server);
  const auto shown = pages->show_connections("shop", server.tcp());

  EXPECT_TRUE(std::filesystem::exists("inspect"));
}
// clang-format on

}  // namespace
}  // namespace metrics_guide_test
