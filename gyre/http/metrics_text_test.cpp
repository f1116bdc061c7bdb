// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/metrics_text.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>

namespace metrics_text_test {
namespace {

using namespace std::chrono_literals;
using gyre::http::metrics_text;

TEST(MetricsText, SamplesOfAMetricShareItsHelpAndType) {
  metrics_text text;
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
  EXPECT_EQ(text.response().body(), text.text());
  EXPECT_EQ(text.response().fields().get("Content-Type"), metrics_text::content_type);
}

TEST(MetricsText, EscapesHelpAndLabels) {
  metrics_text text;
  text.add_gauge("a:b_1", "back\\slash\n\"quoted\"", 0.5, {{"_x1", "a\\b\n\"c\" ü"}});
  EXPECT_EQ(text.text(),
            "# HELP a:b_1 back\\\\slash\\n\"quoted\"\n"
            "# TYPE a:b_1 gauge\n"
            "a:b_1{_x1=\"a\\\\b\\n\\\"c\\\" ü\"} 0.5\n");
}

TEST(MetricsText, WritesNumbersThatAreNone) {
  using limits = std::numeric_limits<double>;
  metrics_text text;
  text.add_gauge("x", "", limits::infinity(), {{"n", "1"}});
  text.add_gauge("x", "", -limits::infinity(), {{"n", "2"}});
  text.add_gauge("x", "", limits::quiet_NaN(), {{"n", "3"}});
  EXPECT_TRUE(text.text().ends_with("x{n=\"1\"} +Inf\nx{n=\"2\"} -Inf\nx{n=\"3\"} NaN\n"));
}

TEST(MetricsText, ASummaryHasQuantilesSumAndNumber) {
  gyre::histogram took;
  for (const std::chrono::nanoseconds each : {1ns, 2ns, 3ns, 4ns}) took.record(each);
  took.record(2s);
  metrics_text text;
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

TEST(MetricsText, ASummaryOfNothingIsZero) {
  metrics_text text;
  text.add_summary("took_seconds", "Time.", {});
  EXPECT_TRUE(text.text().contains("took_seconds{quantile=\"0.5\"} 0\n"));
  EXPECT_TRUE(text.text().ends_with("took_seconds_sum 0\ntook_seconds_count 0\n"));
}

TEST(MetricsText, RefusesNamesAndWritesNothing) {
  metrics_text text;
  for (const std::string name : {"", "1a", "a-b", "a b", "a{b", "ä", "a\n"}) {
    EXPECT_THROW(text.add_counter(name, "", 1), std::invalid_argument) << name;
  }
  for (const std::string name : {"", "1a", "a:b", "a\"", "__a", "quantile"}) {
    EXPECT_THROW(text.add_gauge("x", "", 1, {{name, "value"}}), std::invalid_argument) << name;
  }
  EXPECT_EQ(text.text(), "");
}

TEST(MetricsText, RefusesAMetricThatWasInterruptedOrHasTwoTypes) {
  metrics_text text;
  text.add_counter("a", "", 1);
  EXPECT_THROW(text.add_gauge("a", "", 1), std::invalid_argument);
  text.add_counter("b", "", 1);
  const std::string before = text.text();
  EXPECT_THROW(text.add_counter("a", "", 2), std::invalid_argument);
  EXPECT_EQ(text.text(), before);
}

TEST(MetricsText, RefusesASampleThatWasAddedBefore) {
  metrics_text text;
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

TEST(MetricsText, RefusesALabelThatIsNamedTwice) {
  metrics_text text;
  EXPECT_THROW(text.add_gauge("x", "", 1, {{"a", "1"}, {"b", "1"}, {"a", "2"}}),
               std::invalid_argument);
  EXPECT_EQ(text.text(), "");
}

TEST(MetricsText, RefusesTheNameOfAnotherMetricsSample) {
  metrics_text text;
  text.add_summary("took", "", {});
  EXPECT_THROW(text.add_counter("took_count", "", 1), std::invalid_argument);
  text.add_counter("lasted_sum", "", 1);
  EXPECT_THROW(text.add_histogram("lasted", "", {}), std::invalid_argument);
}

TEST(MetricsText, AHistogramCountsTheDurationsUpToEachLimit) {
  gyre::histogram took;
  for (const std::chrono::milliseconds each : {1ms, 2ms, 30ms, 2000ms}) took.record(each);
  metrics_text text;
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

TEST(MetricsText, RefusesLimitsThatDoNotRise) {
  metrics_text text;
  static constexpr std::array<gyre::duration, 2> limits = {1s, 1s};
  EXPECT_THROW(text.add_histogram("x", "", {}, {}, limits), std::invalid_argument);
  EXPECT_THROW(text.add_histogram("x", "", {}, {{"le", "1"}}), std::invalid_argument);
  EXPECT_EQ(text.text(), "");
}

}  // namespace
}  // namespace metrics_text_test
