// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/trace_parent.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

namespace trace_parent_test {
namespace {

using gyre::http::trace_parent;

constexpr std::string_view valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(HttpTraceParent, ReadsAndWritesTheField) {
  const auto parsed = trace_parent::parse(valid);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(parsed->parent_id(), "00f067aa0ba902b7");
  EXPECT_TRUE(parsed->is_sampled());
  EXPECT_EQ(parsed->to_string(), valid);
  const auto quiet = trace_parent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fe");
  ASSERT_TRUE(quiet);
  EXPECT_FALSE(quiet->is_sampled());
  EXPECT_TRUE(quiet->to_string().ends_with("-00")) << "flags that are not known are not passed on";
}

TEST(HttpTraceParent, ReadsLaterVersions) {
  const std::string later = "cc" + std::string(valid.substr(2));
  for (const std::string more : {"", "-", "-more", "-01-02"}) {
    const auto parsed = trace_parent::parse(later + more);
    ASSERT_TRUE(parsed) << more;
    EXPECT_EQ(parsed->to_string(), valid);
  }
  EXPECT_FALSE(trace_parent::parse(later + "1"));
}

TEST(HttpTraceParent, IgnoresMalformedValues) {
  for (const std::string text : {
           "",
           "00",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
           " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4BF92F3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
       }) {
    EXPECT_FALSE(trace_parent::parse(text)) << text;
  }
}

TEST(HttpTraceParent, MakesTracesAndChildren) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const trace_parent made = trace_parent::make(i % 2 == 0);
    EXPECT_EQ(trace_parent::parse(made.to_string()), made);
    EXPECT_EQ(made.is_sampled(), i % 2 == 0);
    const trace_parent child = made.make_child();
    EXPECT_EQ(child.trace_id(), made.trace_id());
    EXPECT_EQ(child.is_sampled(), made.is_sampled());
    EXPECT_NE(child.parent_id(), made.parent_id());
    seen.emplace(made.trace_id());
    seen.emplace(child.parent_id());
  }
  EXPECT_EQ(seen.size(), 200u);
}

}  // namespace
}  // namespace trace_parent_test
