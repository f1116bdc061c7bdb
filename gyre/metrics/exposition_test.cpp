// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/exposition.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace exposition_test {
namespace {

using namespace std::chrono_literals;
using gyre::metrics::exposition;
using gyre::metrics::exposition_format;

TEST(MetricsExposition, SamplesOfAMetricShareItsHelpAndType) {
  exposition text;
  text.add_counter("mails_total", "Mails by their end.", 7, {{"end", "sent"}, {"by", "post"}});
  text.add_counter("mails_total", "Mails by their end.", 18446744073709551615U, {{"end", "lost"}});
  text.add_gauge("carts", "Carts now.", -2);
  EXPECT_EQ(text.text(),
            "# HELP mails_total Mails by their end.\n"
            "# TYPE mails_total counter\n"
            "mails_total{end=\"sent\",by=\"post\"} 7\n"
            "mails_total{end=\"lost\"} 18446744073709551615\n"
            "# HELP carts Carts now.\n"
            "# TYPE carts gauge\n"
            "carts -2\n");
  EXPECT_EQ(text.content_type(), "text/plain; version=0.0.4; charset=utf-8");
}

TEST(MetricsExposition, EscapesHelpAndLabels) {
  exposition text;
  text.add_gauge("a:b_1", "back\\slash\n\"quoted\"", 0.5, {{"_x1", "a\\b\n\"c\" ü"}});
  EXPECT_EQ(text.text(),
            "# HELP a:b_1 back\\\\slash\\n\"quoted\"\n"
            "# TYPE a:b_1 gauge\n"
            "a:b_1{_x1=\"a\\\\b\\n\\\"c\\\" ü\"} 0.5\n");
}

TEST(MetricsExposition, WritesNumbersThatAreNone) {
  using limits = std::numeric_limits<double>;
  exposition text;
  text.add_gauge("x", "", limits::infinity(), {{"n", "1"}});
  text.add_gauge("x", "", -limits::infinity(), {{"n", "2"}});
  text.add_gauge("x", "", limits::quiet_NaN(), {{"n", "3"}});
  EXPECT_TRUE(text.text().ends_with("x{n=\"1\"} +Inf\nx{n=\"2\"} -Inf\nx{n=\"3\"} NaN\n"));
}

TEST(MetricsExposition, ASummaryHasQuantilesSumAndNumber) {
  gyre::histogram took;
  for (const std::chrono::nanoseconds each : {1ns, 2ns, 3ns, 4ns}) took.record(each);
  took.record(2s);
  exposition text;
  text.add_summary("took_seconds", "Time.", took, {{"path", "/"}});
  EXPECT_EQ(text.text(),
            "# HELP took_seconds Time.\n"
            "# TYPE took_seconds summary\n"
            "took_seconds{path=\"/\",quantile=\"0.5\"} 3e-09\n"
            "took_seconds{path=\"/\",quantile=\"0.9\"} 2\n"
            "took_seconds{path=\"/\",quantile=\"0.99\"} 2\n"
            "took_seconds{path=\"/\",quantile=\"0.999\"} 2\n"
            "took_seconds_sum{path=\"/\"} 2.00000001\n"
            "took_seconds_count{path=\"/\"} 5\n");
}

TEST(MetricsExposition, ASummaryOfNothingIsZero) {
  exposition text;
  text.add_summary("took_seconds", "Time.", {});
  EXPECT_TRUE(text.text().contains("took_seconds{quantile=\"0.5\"} 0\n"));
  EXPECT_TRUE(text.text().ends_with("took_seconds_sum 0\ntook_seconds_count 0\n"));
}

TEST(MetricsExposition, RefusesNamesAndWritesNothing) {
  exposition text;
  for (const std::string name : {"", "1a", "a-b", "a b", "a{b", "ä", "a\n"}) {
    EXPECT_THROW(text.add_counter(name, "", 1), std::invalid_argument) << name;
  }
  for (const std::string name : {"", "1a", "a:b", "a\"", "__a", "quantile"}) {
    EXPECT_THROW(text.add_gauge("x", "", 1, {{name, "value"}}), std::invalid_argument) << name;
  }
  EXPECT_EQ(text.text(), "");
}

TEST(MetricsExposition, RefusesAMetricOfTwoTypes) {
  exposition text;
  text.add_counter("a", "", 1);
  EXPECT_THROW(text.add_gauge("a", "", 1), std::invalid_argument);
  EXPECT_TRUE(text.text().ends_with("a 1\n"));
}

TEST(MetricsExposition, KeepsTheSamplesOfAMetricTogether) {
  exposition text;
  text.add_counter("a", "", 1, {{"x", "1"}});
  text.add_gauge("b", "", 1);
  text.add_counter("a", "", 2, {{"x", "2"}});
  EXPECT_EQ(text.text(),
            "# HELP a \n# TYPE a counter\na{x=\"1\"} 1\na{x=\"2\"} 2\n"
            "# HELP b \n# TYPE b gauge\nb 1\n");
}

TEST(MetricsExposition, RefusesASampleThatWasAddedBefore) {
  exposition text;
  text.add_counter("mails_total", "", 1, {{"end", "sent"}, {"by", "post"}});
  text.add_counter("mails_total", "", 1, {{"end", "sent"}});
  text.add_counter("mails_total", "", 1);
  const std::string before = text.text();
  EXPECT_THROW(text.add_counter("mails_total", "", 2, {{"by", "post"}, {"end", "sent"}}),
               std::invalid_argument);
  EXPECT_THROW(text.add_counter("mails_total", "", 2), std::invalid_argument);
  EXPECT_EQ(text.text(), before);
  text.add_counter("mails_total", "", 2, {{"end", "sen"}, {"by", "tpost"}});
  text.add_counter("letters_total", "", 2, {{"end", "sent"}});  // a metric of its own
}

TEST(MetricsExposition, RefusesALabelThatIsNamedTwice) {
  exposition text;
  EXPECT_THROW(text.add_gauge("x", "", 1, {{"a", "1"}, {"b", "1"}, {"a", "2"}}),
               std::invalid_argument);
  EXPECT_EQ(text.text(), "");
}

TEST(MetricsExposition, RefusesTheNameOfAnotherMetricsSample) {
  exposition text;
  text.add_summary("took", "", {});
  EXPECT_THROW(text.add_counter("took_count", "", 1), std::invalid_argument);
  text.add_counter("lasted_sum", "", 1);
  EXPECT_THROW(text.add_histogram("lasted", "", {}), std::invalid_argument);
}

TEST(MetricsExposition, AHistogramCountsTheDurationsUpToEachLimit) {
  gyre::histogram took;
  for (const std::chrono::milliseconds each : {1ms, 2ms, 30ms, 2000ms}) took.record(each);
  exposition text;
  static constexpr std::array<gyre::duration, 3> limits = {5ms, 100ms, 1s};
  text.add_histogram("took_seconds", "Time.", took, {{"path", "/"}}, limits);
  EXPECT_EQ(text.text(),
            "# HELP took_seconds Time.\n"
            "# TYPE took_seconds histogram\n"
            "took_seconds_bucket{path=\"/\",le=\"0.005\"} 2\n"
            "took_seconds_bucket{path=\"/\",le=\"0.1\"} 3\n"
            "took_seconds_bucket{path=\"/\",le=\"1\"} 3\n"
            "took_seconds_bucket{path=\"/\",le=\"+Inf\"} 4\n"
            "took_seconds_sum{path=\"/\"} 2.033\n"
            "took_seconds_count{path=\"/\"} 4\n");
}

TEST(MetricsExposition, RefusesLimitsThatDoNotRise) {
  exposition text;
  static constexpr std::array<gyre::duration, 2> limits = {1s, 1s};
  EXPECT_THROW(text.add_histogram("x", "", {}, {}, limits), std::invalid_argument);
  EXPECT_THROW(text.add_histogram("x", "", {}, {{"le", "1"}}), std::invalid_argument);
  EXPECT_EQ(text.text(), "");
}

TEST(MetricsExposition, ReplacesBytesThatAreNotUtf8) {
  exposition text;
  text.add_gauge("x", "", 1, {{"a", "1\xff\xc3\xa4\xed\xa0\x80\xf0\x9f\x98\x80\xc3"}});
  EXPECT_TRUE(text.text().ends_with("x{a=\"1\ufffd\u00e4\ufffd\ufffd\ufffd\U0001f600\ufffd\"} 1\n"))
      << text.text();
}

TEST(MetricsExposition, AddsCommonLabels) {
  exposition text;
  text.set_common_labels({{"name", "a\"b"}});
  text.add_gauge("x", "", 1, {{"y", "2"}});
  EXPECT_THROW(text.add_gauge("x", "", 1, {{"name", "2"}}), std::invalid_argument);
  text.set_common_labels({});
  text.add_gauge("x", "", 2);
  EXPECT_TRUE(text.text().ends_with("x{name=\"a\\\"b\",y=\"2\"} 1\nx 2\n")) << text.text();
  EXPECT_THROW(text.set_common_labels({{"le", ""}}), std::invalid_argument);
}

TEST(MetricsExposition, WritesDurationsInSeconds) {
  exposition text;
  text.add_counter("work_seconds_total", "", 1500ms);
  text.add_gauge("age_seconds", "", 2min);
  EXPECT_TRUE(text.text().contains("work_seconds_total 1.5\n"));
  EXPECT_TRUE(text.text().contains("age_seconds 120\n"));
}

TEST(MetricsExposition, WritesOpenMetrics) {
  gyre::histogram took;
  took.record(2s);
  static constexpr std::array<gyre::duration, 2> limits = {500ms, 1s};
  exposition text(exposition_format::open_metrics);
  text.add_counter("mails_total", "Say \"hello\".", 7);
  text.add_counter("letters", "", 8);
  text.add_gauge("carts", "", 2);
  text.add_histogram("took_seconds", "", took, {}, limits);
  EXPECT_EQ(text.content_type(), "application/openmetrics-text; version=1.0.0; charset=utf-8");
  EXPECT_EQ(text.text(),
            "# HELP mails Say \\\"hello\\\".\n# TYPE mails counter\nmails_total 7\n"
            "# HELP letters \n# TYPE letters counter\nletters_total 8\n"
            "# HELP carts \n# TYPE carts gauge\ncarts 2\n"
            "# HELP took_seconds \n# TYPE took_seconds histogram\n"
            "took_seconds_bucket{le=\"0.5\"} 0\n"
            "took_seconds_bucket{le=\"1.0\"} 0\n"
            "took_seconds_bucket{le=\"+Inf\"} 1\n"
            "took_seconds_sum 2\ntook_seconds_count 1\n"
            "# EOF\n");
  EXPECT_THROW(text.add_gauge("mails", "", 1), std::invalid_argument);
  EXPECT_THROW(text.add_gauge("mails_total", "", 1), std::invalid_argument);
}

TEST(MetricsExposition, TakesTheCountsOfBuckets) {
  static constexpr std::array<double, 2> limits = {1, 10};
  static constexpr std::array<std::uint64_t, 3> counts = {2, 0, 1};
  static constexpr std::array<std::uint64_t, 2> too_few = {2, 0};
  exposition text;
  text.add_bucket_histogram("x_bytes", "", {.limits = limits, .counts = counts, .sum = 25.5});
  EXPECT_TRUE(
      text.text().ends_with("x_bytes_bucket{le=\"1\"} 2\nx_bytes_bucket{le=\"10\"} 2\n"
                            "x_bytes_bucket{le=\"+Inf\"} 3\nx_bytes_sum 25.5\n"
                            "x_bytes_count 3\n"));
  EXPECT_THROW(text.add_bucket_histogram("y", "", {.limits = limits, .counts = too_few, .sum = 0}),
               std::invalid_argument);
}

TEST(MetricsExposition, MergesOthersAndDropsRepetitions) {
  exposition text;
  text.add_counter("a", "A", 1, {{"x", "1"}});
  text.add_gauge("b", "B", 1);
  exposition other;
  other.add_counter("a", "A", 5, {{"x", "1"}});
  other.add_counter("a", "A", 2, {{"x", "2"}});
  other.add_counter("b", "B", 5);
  other.add_gauge("c", "C", 3);
  EXPECT_EQ(text.merge(other), 2u);
  EXPECT_EQ(text.text(),
            "# HELP a A\n# TYPE a counter\na{x=\"1\"} 1\na{x=\"2\"} 2\n"
            "# HELP b B\n# TYPE b gauge\nb 1\n# HELP c C\n# TYPE c gauge\nc 3\n");
  EXPECT_THROW(text.merge(exposition(exposition_format::open_metrics)), std::invalid_argument);
}

}  // namespace
}  // namespace exposition_test
