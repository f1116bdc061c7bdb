// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/log_level.hpp>

#include <gyre/base/detail/log.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace log_level_test {
namespace {

using gyre::log_level;

using messages = std::vector<std::pair<log_level, std::string>>;

class LogLevel : public testing::Test {
 protected:
  ~LogLevel() override {
    gyre::set_log_writer(nullptr);
    gyre::set_log_level(log_level::info);
  }
  static void log_each_level() {
    for (const log_level each : {log_level::error, log_level::warning, log_level::info}) {
      gyre::detail::log(each, "gyre: ", std::string("a test: "), gyre::to_string(each));
    }
  }
};

TEST_F(LogLevel, IsInfoAtFirst) { EXPECT_EQ(gyre::current_log_level(), log_level::info); }

TEST_F(LogLevel, AdmitsMessagesThatAreAtLeastAsSevere) {
  const auto printed_at = [](log_level level) {
    gyre::set_log_level(level);
    testing::internal::CaptureStderr();
    log_each_level();
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(printed_at(log_level::off), "");
  EXPECT_EQ(printed_at(log_level::error), "gyre: a test: error\n");
  EXPECT_EQ(printed_at(log_level::warning), "gyre: a test: error\ngyre: a test: warning\n");
  EXPECT_EQ(printed_at(log_level::info),
            "gyre: a test: error\ngyre: a test: warning\ngyre: a test: info\n");
  EXPECT_EQ(gyre::current_log_level(), log_level::info);
}

TEST_F(LogLevel, AWriterGetsTheMessagesInsteadOfStderr) {
  static messages written;
  written.clear();
  gyre::set_log_level(log_level::warning);
  gyre::set_log_writer([](log_level level, std::string_view message) noexcept {
    written.emplace_back(level, message);
  });
  testing::internal::CaptureStderr();
  log_each_level();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(written, (messages{{log_level::error, "gyre: a test: error"},
                               {log_level::warning, "gyre: a test: warning"}}));
}

TEST_F(LogLevel, HasANameThatIsParsed) {
  for (const log_level each :
       {log_level::off, log_level::error, log_level::warning, log_level::info}) {
    EXPECT_EQ(gyre::parse_log_level(gyre::to_string(each)), each);
  }
  for (const std::string_view text : {"", "Error", "errors", "debug", " off"}) {
    EXPECT_EQ(gyre::parse_log_level(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace log_level_test
