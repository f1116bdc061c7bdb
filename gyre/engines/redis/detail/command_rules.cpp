// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/detail/command_rules.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

namespace gyre::redis::detail {
namespace {

struct named_rule {
  std::string_view name;
  command_rule rule;
};

constexpr std::array<named_rule, 39> rules = {{
    {"ASKING", command_rule::own},
    {"AUTH", command_rule::own},
    {"BLMOVE", command_rule::waiting},
    {"BLMPOP", command_rule::waiting},
    {"BLPOP", command_rule::waiting},
    {"BRPOP", command_rule::waiting},
    {"BRPOPLPUSH", command_rule::waiting},
    {"BZMPOP", command_rule::waiting},
    {"BZPOPMAX", command_rule::waiting},
    {"BZPOPMIN", command_rule::waiting},
    {"CLIENT", command_rule::by_arguments},
    {"DISCARD", command_rule::own},
    {"EXEC", command_rule::own},
    {"HELLO", command_rule::refused},
    {"MONITOR", command_rule::refused},
    {"MULTI", command_rule::own},
    {"PSUBSCRIBE", command_rule::refused},
    {"PSYNC", command_rule::refused},
    {"PUNSUBSCRIBE", command_rule::refused},
    {"QUIT", command_rule::own},
    {"READONLY", command_rule::own},
    {"READWRITE", command_rule::own},
    {"REPLCONF", command_rule::refused},
    {"RESET", command_rule::refused},
    {"SELECT", command_rule::own},
    {"SHUTDOWN", command_rule::own},
    {"SSUBSCRIBE", command_rule::refused},
    {"SUBSCRIBE", command_rule::refused},
    {"SUNSUBSCRIBE", command_rule::refused},
    {"SYNC", command_rule::refused},
    {"UNSUBSCRIBE", command_rule::refused},
    {"UNWATCH", command_rule::own},
    {"WAIT", command_rule::waiting},
    {"WAITAOF", command_rule::waiting},
    {"WATCH", command_rule::own},
    {"XREAD", command_rule::by_arguments},
    {"XREADGROUP", command_rule::by_arguments},
    {"DEBUG", command_rule::own},
    {"FAILOVER", command_rule::own},
}};

char to_upper(char letter) noexcept {
  return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
}

}  // namespace

bool is_word(std::string_view text, std::string_view upper) noexcept {
  return text.size() == upper.size() && std::ranges::equal(text, upper, {}, to_upper);
}

command_rule rule_of_name(std::string_view name) noexcept {
  for (const auto& [upper, rule] : rules) {
    if (is_word(name, upper)) return rule;
  }
  return command_rule::shared;
}

command_rule rule_of_written(std::string_view written) noexcept {
  argument_reader arguments(written);
  const std::string_view name = arguments.next().value_or("");
  if (is_word(name, "CLIENT")) {
    const std::string_view subcommand = arguments.next().value_or("");
    for (const char* upper : {"CACHING", "REPLY", "TRACKING"}) {
      if (is_word(subcommand, upper)) return command_rule::refused;
    }
    return is_word(subcommand, "SETNAME") ? command_rule::own : command_rule::shared;
  }
  if (is_word(name, "XREAD") || is_word(name, "XREADGROUP")) {
    while (const auto option = arguments.next()) {
      if (is_word(*option, "STREAMS")) break;
      if (is_word(*option, "BLOCK")) return command_rule::waiting;
      if (!is_word(*option, "GROUP")) continue;
      // Two names follow, either of which may be BLOCK.
      arguments.next();
      arguments.next();
    }
    return command_rule::shared;
  }
  const command_rule rule = rule_of_name(name);
  return rule == command_rule::by_arguments ? command_rule::shared : rule;
}

argument_reader::argument_reader(std::string_view written) noexcept
    : unread_(written.substr(std::min(written.find('\n'), written.size() - 1) + 1)) {}

std::optional<std::string_view> argument_reader::next() noexcept {
  const std::size_t line_end = unread_.find('\r');
  if (line_end == std::string_view::npos) return std::nullopt;
  std::size_t size = 0;
  std::from_chars(unread_.data() + 1, unread_.data() + line_end, size);
  const std::string_view argument = unread_.substr(line_end + 2, size);
  unread_.remove_prefix(line_end + 2 + size + 2);
  return argument;
}

}  // namespace gyre::redis::detail
