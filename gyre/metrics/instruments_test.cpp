// SPDX-License-Identifier: Apache-2.0
// Counters, gauges, histograms and families, as a registry makes them.
#include <gyre/metrics/registry.hpp>

#include <gyre/task/sync_wait.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace instruments_test {
namespace {

using namespace std::chrono_literals;
namespace metrics = gyre::metrics;

std::string collect(metrics::registry& metrics) {
  return gyre::sync_wait(metrics.collect()).text();
}

void run_on_threads(int count, auto work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work);
  for (std::thread& each : threads) each.join();
}

TEST(MetricsInstruments, CountersAddUpWhatThreadsCount) {
  metrics::registry all;
  metrics::counter& orders = all.make_counter("orders_total", "Orders.");
  run_on_threads(8, [&] {
    for (int i = 0; i < 10'000; ++i) orders.add();
    orders.add(5);
  });
  EXPECT_EQ(orders.value(), 80'040u);
  EXPECT_TRUE(collect(all).contains(
      "# HELP orders_total Orders.\n# TYPE orders_total counter\norders_total 80040\n"));
}

TEST(MetricsInstruments, GaugesRiseAndFall) {
  metrics::registry all;
  metrics::gauge& carts = all.make_gauge("carts", "");
  run_on_threads(4, [&] {
    for (int i = 0; i < 1'000; ++i) carts.add(1);
    for (int i = 0; i < 999; ++i) carts.add(-1);
  });
  EXPECT_EQ(carts.value(), 4);
  carts.set(-2.5);
  EXPECT_TRUE(collect(all).contains("carts -2.5\n"));
}

TEST(MetricsInstruments, HistogramsCountByBuckets) {
  metrics::registry all;
  static constexpr std::array<gyre::duration, 2> limits = {10ms, 1s};
  auto& paid = all.make_duration_histogram("paid_seconds", "", limits);
  run_on_threads(4, [&] {
    paid.record(10ms);
    paid.record(11ms);
    paid.record(-1s);
    paid.record(2s);
  });
  EXPECT_EQ(paid.counts(), (std::vector<std::uint64_t>{8, 4, 4}));
  EXPECT_EQ(paid.sum(), 4 * 2021ms);
  const std::string text = collect(all);
  EXPECT_TRUE(
      text.contains("paid_seconds_bucket{le=\"0.01\"} 8\n"
                    "paid_seconds_bucket{le=\"1\"} 12\n"
                    "paid_seconds_bucket{le=\"+Inf\"} 16\n"
                    "paid_seconds_sum 8.084\npaid_seconds_count 16\n"))
      << text;

  static constexpr std::array<std::uint64_t, 9> sizes = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  auto& uploads = all.make_size_histogram("upload_bytes", "", sizes);
  uploads.record(9);
  uploads.record(100);
  EXPECT_EQ(uploads.counts(), (std::vector<std::uint64_t>{0, 0, 0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_TRUE(collect(all).contains("upload_bytes_bucket{le=\"9\"} 1\n"));
  EXPECT_TRUE(collect(all).contains("upload_bytes_sum 109\n"));
}

TEST(MetricsInstruments, LimitsMustRise) {
  metrics::registry all;
  static constexpr std::array<gyre::duration, 2> falling = {1s, 1s}, negative = {-1s, 1s};
  static constexpr std::array<std::uint64_t, 2> sizes = {2, 1};
  EXPECT_THROW(all.make_duration_histogram("a", "", falling), std::invalid_argument);
  EXPECT_THROW(all.make_duration_histogram("a", "", negative), std::invalid_argument);
  EXPECT_THROW(all.make_duration_histograms("a", "", {"x"}, falling), std::invalid_argument);
  EXPECT_THROW(all.make_size_histogram("a", "", sizes), std::invalid_argument);
  EXPECT_THROW(all.make_size_histograms("a", "", {"x"}, sizes), std::invalid_argument);
}

TEST(MetricsInstruments, TheSameNameIsTheSameInstrument) {
  metrics::registry all;
  EXPECT_EQ(&all.make_counter("a_total", "A."), &all.make_counter("a_total", "A."));
  EXPECT_EQ(&all.make_counters("b_total", "", {"x"}), &all.make_counters("b_total", "", {"x"}));
  EXPECT_THROW(all.make_gauge("a_total", ""), std::invalid_argument);
  EXPECT_THROW(all.make_counters("a_total", "", {"x"}), std::invalid_argument);
  EXPECT_THROW(all.make_counters("b_total", "", {"y"}), std::invalid_argument);
  EXPECT_THROW(all.make_counter("b_total", ""), std::invalid_argument);
}

TEST(MetricsInstruments, NamesAreChecked) {
  metrics::registry all;
  EXPECT_THROW(all.make_counter("a b", ""), std::invalid_argument);
  EXPECT_THROW(all.make_gauge("", ""), std::invalid_argument);
  EXPECT_THROW(all.make_gauges("a", "", {"le"}), std::invalid_argument);
  EXPECT_THROW(all.make_gauges("a", "", {"x", "x"}), std::invalid_argument);
  EXPECT_THROW(all.make_gauges("a", "", {}), std::invalid_argument);
  EXPECT_THROW(all.make_gauges("a", "", {"x"}, {.max_series = 0}), std::invalid_argument);
  EXPECT_FALSE(collect(all).contains("\na"));
}

TEST(MetricsInstruments, FamiliesHaveASeriesForEachCombination) {
  metrics::registry all;
  auto& mails = all.make_counters("mails_total", "Mails.", {"end", "by"});
  mails.with({"sent", "post"}).add(2);
  mails.with({"sent", ""}).add(3);
  mails.with({"sent", "post"}).add(4);
  EXPECT_THROW(static_cast<void>(mails.with({"sent"})), std::invalid_argument);
  const std::string text = collect(all);
  EXPECT_TRUE(
      text.contains("mails_total{end=\"sent\",by=\"\"} 3\n"
                    "mails_total{end=\"sent\",by=\"post\"} 6\n"))
      << text;
  auto& times = all.make_duration_histograms("mail_seconds", "", {"end"});
  times.with({"sent"}).record(2s);
  EXPECT_TRUE(collect(all).contains("mail_seconds_count{end=\"sent\"} 1\n"));
  static constexpr std::array<std::uint64_t, 1> limits = {1};
  auto& sizes = all.make_size_histograms("mail_bytes", "", {"end"}, limits);
  sizes.with({"sent"}).record(2);
  EXPECT_TRUE(collect(all).contains("mail_bytes_count{end=\"sent\"} 1\n"));
  all.make_gauges("mail_queues", "", {"end"}).with({"sent"}).set(4);
  EXPECT_TRUE(collect(all).contains("mail_queues{end=\"sent\"} 4\n"));
}

TEST(MetricsInstruments, FamiliesAreBounded) {
  metrics::registry all;
  auto& paths = all.make_counters("paths_total", "", {"path", "code"}, {.max_series = 2});
  paths.with({"/a", "1"}).add();
  paths.with({"/b", "1"}).add();
  for (int i = 0; i < 100; ++i) paths.with({"/c" + std::to_string(i), "1"}).add();
  paths.with({"/a", "1"}).add();
  paths.with({"other", "other"}).add();
  const std::string text = collect(all);
  EXPECT_TRUE(
      text.contains("paths_total{path=\"/a\",code=\"1\"} 2\n"
                    "paths_total{path=\"/b\",code=\"1\"} 1\n"
                    "paths_total{path=\"other\",code=\"other\"} 101\n"))
      << text;
  EXPECT_TRUE(text.contains("gyre_metrics_series_refused_total 100\n")) << text;
}

TEST(MetricsInstruments, FamiliesMayBeUsedByManyThreads) {
  metrics::registry all;
  auto& paths = all.make_counters("paths_total", "", {"path"}, {.max_series = 50});
  run_on_threads(4, [&] {
    for (int i = 0; i < 400; ++i) {
      paths.with({"/" + std::to_string(i % 100)}).add();
      if (i % 100 == 0) static_cast<void>(collect(all));
    }
  });
  std::uint64_t total = paths.with({"other"}).value();
  const std::string text = collect(all);
  std::size_t series = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string key = "paths_total{path=\"/" + std::to_string(i) + "\"} ";
    const std::size_t found = text.find(key);
    if (found == text.npos) continue;
    ++series;
    total += std::stoull(text.substr(found + key.size()));
  }
  EXPECT_EQ(series, 50u);
  EXPECT_EQ(total, 1'600u);
}

}  // namespace
}  // namespace instruments_test
