// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/detail/command_rules.hpp>

#include <gyre/engines/redis/command.hpp>

#include <gtest/gtest.h>

namespace redis_command_rules_test {
namespace {

using gyre::redis::command;
using gyre::redis::detail::command_rule;
using gyre::redis::detail::rule_of;

TEST(CommandRules, DependOnTheNameInAnyCase) {
  EXPECT_EQ(rule_of(command("GET", "a")), command_rule::shared);
  EXPECT_EQ(rule_of(command("")), command_rule::shared);
  EXPECT_EQ(rule_of(command("BLPOP", "a", 0)), command_rule::waiting);
  EXPECT_EQ(rule_of(command("bLpop", "a", 0)), command_rule::waiting);
  EXPECT_EQ(rule_of(command("watch", "a")), command_rule::own);
  EXPECT_EQ(rule_of(command("Monitor")), command_rule::refused);
}

TEST(CommandRules, ReadingStreamsDependsOnBlock) {
  EXPECT_EQ(rule_of(command("XREAD", "STREAMS", "s", "0")), command_rule::shared);
  EXPECT_EQ(rule_of(command("XREAD", "COUNT", 1, "block", 0, "STREAMS", "s", "0")),
            command_rule::waiting);
  EXPECT_EQ(rule_of(command("XREAD", "STREAMS", "BLOCK", "0")), command_rule::shared);
  EXPECT_EQ(rule_of(command("XREADGROUP", "GROUP", "BLOCK", "BLOCK", "STREAMS", "s", ">")),
            command_rule::shared);
  EXPECT_EQ(rule_of(command("xreadgroup", "group", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")),
            command_rule::waiting);
  EXPECT_EQ(rule_of(command("XREAD")), command_rule::shared);
}

TEST(CommandRules, ClientAndScriptDependOnTheirSubcommands) {
  EXPECT_EQ(rule_of(command("SCRIPT", "FLUSH")), command_rule::shared);
  EXPECT_EQ(rule_of(command("SCRIPT", "debug", "YES")), command_rule::refused);
  EXPECT_EQ(rule_of(command("CLIENT", "INFO")), command_rule::shared);
  EXPECT_EQ(rule_of(command("CLIENT")), command_rule::shared);
  EXPECT_EQ(rule_of(command("client", "reply", "off")), command_rule::refused);
  EXPECT_EQ(rule_of(command("CLIENT", "SETNAME", "me")), command_rule::own);
}

}  // namespace
}  // namespace redis_command_rules_test
