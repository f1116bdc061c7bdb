// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of metrics' headers, and of http's headers about metrics and traces.
#include <gyre/base/slab.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/client.hpp>
#include <gyre/http/client_request.hpp>
#include <gyre/http/inspector.hpp>
#include <gyre/http/metrics_handler.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/trace_propagation.hpp>
#include <gyre/metrics/registry.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/runtime/runtime.hpp>
#include <tests/header_examples/support.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>

namespace metrics_test {

using header_examples::any_port;
using namespace std::chrono_literals;

// clang-format off
// gyre/metrics/writable.hpp
struct cart_metrics {
  std::uint64_t opened = 0;
};
void write_metrics(gyre::metrics::exposition& output, const cart_metrics& counts) {
  output.add_counter("shop_carts_opened_total", "Carts that were opened.", counts.opened);
}
// clang-format on

namespace {

std::string collect(const gyre::metrics::registry& metrics) {
  gyre::loop own;
  return gyre::sync_wait(own, metrics.collect()).text();
}

TEST(MetricsExamples, AnExpositionIsAText) {
  const std::uint64_t orders = 3;
  const std::uint64_t sent = 2;
  const int carts = 7;
  const gyre::histogram paid;
  {
    // gyre/metrics/exposition.hpp
    gyre::metrics::exposition page;
    page.add_counter("shop_orders_total", "Orders that were placed.", orders);
    page.add_counter("shop_mails_total", "Mails by their end.", sent, {{"end", "sent"}});
    page.add_gauge("shop_carts", "Carts that are not empty now.", carts);
    page.add_histogram("shop_payment_seconds", "Time of a payment.", paid);
    std::cout << page.text();
    EXPECT_TRUE(page.text().contains("shop_carts 7\n"));
  }
  gyre::metrics::exposition exposition;
  // gyre/metrics/label.hpp
  exposition.add_counter("mails_total", "Mails by their end.", sent, {{"end", "sent"}});
  write_metrics(exposition, cart_metrics{9});
  EXPECT_TRUE(exposition.text().ends_with("\nshop_carts_opened_total 9\n"));
}

TEST(MetricsExamples, ARegistryHasInstruments) {
  const std::string body = "1234";
  const gyre::steady_time begin{}, end{2s};
  gyre::metrics::registry metrics;
  // clang-format off
  {
    // gyre/metrics/counter.hpp
    gyre::metrics::counter& orders = metrics.make_counter("shop_orders_total", "Placed orders.");
    orders.add();
  }
  {
    // gyre/metrics/gauge.hpp
    gyre::metrics::gauge& carts = metrics.make_gauge("shop_carts", "Carts that are not empty.");
    carts.add(1);
    carts.add(-1);
  }
  {
    // gyre/metrics/duration_histogram.hpp
    auto& paid = metrics.make_duration_histogram("shop_payment_seconds", "Time of a payment.");
    paid.record(end - begin);
  }
  {
    // gyre/metrics/size_histogram.hpp
    static constexpr std::array<std::uint64_t, 3> limits = {1024, 65536, 1048576};
    auto& uploads = metrics.make_size_histogram("shop_upload_bytes", "Size of uploads.", limits);
    uploads.record(body.size());
  }
  {
    // gyre/metrics/family.hpp
    auto& mails = metrics.make_counters("shop_mails_total", "Mails by their end.", {"end"});
    mails.with({"sent"}).add();
  }
  // gyre/metrics/early_counts.hpp
  const auto counted_slabs = metrics.add_function([](gyre::metrics::exposition& output) {
    write_metrics(output, gyre::read_slab_stats());
  });
  // clang-format on
  const std::string text = collect(metrics);
  for (const std::string_view line :
       {"shop_orders_total 1", "shop_carts 0", "shop_payment_seconds_sum 2",
        "shop_upload_bytes_count 1", "shop_mails_total{end=\"sent\"} 1", "gyre_slab_heaps "}) {
    EXPECT_TRUE(text.contains("\n" + std::string(line))) << line;
  }
}

TEST(MetricsExamples, ARegistryHasObjects) {
  gyre::loop loop;
  gyre::thread_pool pool(1);
  const auto show = [&]() -> gyre::task<> {
    // gyre/metrics/registry.hpp
    gyre::metrics::registry metrics;
    gyre::metrics::counter& orders = metrics.make_counter("shop_orders_total", "Placed orders.");
    const auto counted_loop = metrics.add("network", loop);
    const auto counted_pool = metrics.add("workers", pool);
    orders.add();
    gyre::metrics::exposition page = co_await metrics.collect();
    EXPECT_TRUE(page.text().contains("gyre_executor_up{name=\"network\"} 1\n"));
  };
  gyre::sync_wait(loop, show());
}

TEST(MetricsExamples, ARegistrationRemovesItsObject) {
  gyre::metrics::registry metrics;
  {
    // gyre/metrics/registration.hpp
    gyre::loop loop;
    const gyre::metrics::registration counted = metrics.add("network", loop);
    EXPECT_TRUE(gyre::sync_wait(loop, metrics.collect()).text().contains("gyre_loop_turns_total{"));
  }
  EXPECT_FALSE(collect(metrics).contains("gyre_loop_turns_total{"));
}

TEST(MetricsExamples, OperatorsHaveAnAddress) {
  const header_examples::own_directory folder;
  gyre::metrics::registry metrics;
  gyre::loop loop;
  gyre::http::server server(loop, any_port());
  // gyre/http/metrics_handler.hpp
  server.get("/metrics", gyre::http::metrics_handler(metrics));
  const auto make = [&](const std::string& path) {
    // clang-format off
    // gyre/http/inspector.hpp
    gyre::http::inspector inspector(metrics, "unix:/run/shop/inspect");
    const auto shown = inspector.show_connections("shop", server.tcp());
    inspector.start();
    // clang-format on
    return path;
  };
  EXPECT_THROW(make("x"), std::system_error) << "there is no such folder";
  gyre::http::inspector inspector(metrics, "127.0.0.1:0");
  // gyre/http/shown_connections.hpp
  const auto shown = inspector.show_connections("shop", server.tcp());
  inspector.start();
}

// gyre/http/inspect_at.hpp
TEST(MetricsExamples, ARuntimeHasAnInspector) {
  const auto make = [] {
    // clang-format off
    gyre::runtime rt({.inspect = gyre::http::inspect_at("unix:/run/shop/inspect")});
    // clang-format on
  };
  EXPECT_THROW(make(), std::system_error) << "there is no such folder";
}

TEST(MetricsExamples, TracesArePassedOn) {
  gyre::loop loop;
  gyre::http::server server(loop, any_port());
  // gyre/http/trace_propagation.hpp
  server.use(gyre::http::trace_propagation());
  gyre::http::client backend(loop, {.sends_trace = true});
  std::ostringstream log;
  server.get("/", [&](gyre::http::request& request) {
    gyre::http::client_request call(gyre::http::method::get, "http://localhost/");
    // gyre/http/trace_parent.hpp
    if (const auto parent = request.trace_parent()) {
      log << "trace " << parent->trace_id() << '\n';
      call.set("traceparent", parent->make_child().to_string());
    }
    return gyre::http::response::text(std::string(call.fields().get("traceparent").value_or("")));
  });
  server.start();
  const auto ask = [&]() -> gyre::task<std::string> {
    gyre::http::client_request request(gyre::http::method::get,
                                       "http://" + server.local_endpoint().to_string() + "/");
    request.set("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    auto sending = backend.send(std::move(request));
    const gyre::http::client_response response = co_await std::move(sending);
    co_return std::string(response.body());
  };
  EXPECT_TRUE(gyre::sync_wait(loop, ask()).starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
  EXPECT_EQ(log.str(), "trace 4bf92f3577b34da6a3ce929d0e0e4736\n");
  const auto stop = [&]() -> gyre::task<> {
    auto stopping = server.stop_async(0s);
    co_await std::move(stopping);
  };
  gyre::sync_wait(loop, stop());
}

}  // namespace
}  // namespace metrics_test
