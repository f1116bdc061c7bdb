// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/arguments.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lab {
namespace arguments_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

enum class form { callable, intrusive };

/// A command line like that of a real contender.
class Arguments : public testing::Test {
 protected:
  Arguments() {
    options_.number("producers", producers_, "threads that post", 1, 64)
        .number("warm-up", warm_up_, "rounds before the timed one")
        .choice("form", form_, "how it is posted",
                {{"callable", form::callable}, {"intrusive", form::intrusive}})
        .end_of_parameters()
        .list("pin", pin_, "CPUs to run on")
        .decimal("handicap", handicap_, "percent slower");
  }

  void parse(std::vector<const char*> words) {
    words.insert(words.begin(), "program");
    options_.parse(static_cast<int>(words.size()), words.data());
  }

  std::string complaint(std::vector<const char*> words) {
    try {
      parse(std::move(words));
    } catch (const usage_error& wrong) {
      return wrong.what();
    }
    return "";
  }

  std::uint32_t producers_ = 4;
  std::uint64_t warm_up_ = 0;
  form form_ = form::callable;
  std::vector<unsigned> pin_;
  double handicap_ = 0;
  arguments options_;
};

TEST_F(Arguments, WithoutWordsEveryDefaultStays) {
  parse({});
  EXPECT_EQ(producers_, 4u);
  EXPECT_EQ(form_, form::callable);
  EXPECT_TRUE(pin_.empty());
}

TEST_F(Arguments, EachKindIsReadIntoItsVariable) {
  parse({"--producers", "16", "--form", "intrusive", "--pin", "0,3", "--handicap", "2.5"});
  EXPECT_EQ(producers_, 16u);
  EXPECT_EQ(form_, form::intrusive);
  EXPECT_THAT(pin_, ElementsAre(0u, 3u));
  EXPECT_EQ(handicap_, 2.5);
}

TEST_F(Arguments, ParametersAreReportedUnderTheirTomlNames) {
  parse({"--warm-up", "2", "--pin", "0"});
  EXPECT_EQ(options_.values().text(), R"({"producers":4,"warm_up":2,"form":"callable"})");
}

TEST_F(Arguments, UnknownKeySuggestsTheNearestOne) {
  EXPECT_EQ(complaint({"--producer", "4"}), "unknown option --producer; did you mean --producers?");
  EXPECT_EQ(complaint({"--colour", "red"}), "unknown option --colour");
}

TEST_F(Arguments, WrongValueSaysWhatIsTaken) {
  EXPECT_EQ(complaint({"--producers", "65"}), "--producers: '65' is out of range; it takes 1..64");
  EXPECT_THAT(complaint({"--form", "lambda"}),
              AllOf(HasSubstr("'lambda'"), HasSubstr("callable|intrusive")));
}

TEST_F(Arguments, MissingValueSaysWhatIsTaken) {
  EXPECT_EQ(complaint({"--form"}), "--form needs a value: callable|intrusive");
}

TEST_F(Arguments, NumbersAreReadWholeOrNotAtAll) {
  for (const char* text : {"", "-1", "+1", "1e3", "4 ", "0x10", "4.5", "four"}) {
    EXPECT_THAT(complaint({"--warm-up", text}), HasSubstr("is not a whole number")) << text;
  }
  EXPECT_THAT(complaint({"--warm-up", "18446744073709551616"}), HasSubstr("is out of range"));
}

TEST_F(Arguments, HandicapIsNeverNegativeOrInfinite) {
  for (const char* text : {"-1", "inf", "nan", "10%", ""}) {
    EXPECT_THAT(complaint({"--handicap", text}), HasSubstr("is not a number from 0 up")) << text;
  }
}

TEST_F(Arguments, ListWithAnEmptyItemIsRefused) {
  EXPECT_THAT(complaint({"--pin", "0,"}), HasSubstr("is not a whole number"));
}

TEST_F(Arguments, RepeatedKeyIsRefused) {
  EXPECT_EQ(complaint({"--pin", "0", "--pin", "1"}), "--pin is given twice");
}

TEST_F(Arguments, BareWordIsRefused) {
  EXPECT_THAT(complaint({"producers", "4"}), HasSubstr("'producers' is not expected"));
}

TEST_F(Arguments, HelpNamesEveryOptionWithItsDefault) {
  EXPECT_THAT(options_.help(),
              AllOf(HasSubstr("--producers 1..64"), HasSubstr("(4)"), HasSubstr("--warm-up 0.. "),
                    HasSubstr("callable|intrusive"), HasSubstr("--pin")));
}

}  // namespace
}  // namespace arguments_test
}  // namespace lab
