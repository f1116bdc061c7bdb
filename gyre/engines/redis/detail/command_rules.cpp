// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/detail/command_rules.hpp>

#include <gyre/base/detail/ascii.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

namespace gyre::redis::detail {
namespace {

using gyre::detail::equals_ignoring_case;

struct named_rule {
  std::string_view name;
  command_rule rule;
};

// The rules of commands, sorted by the length of the name.
constexpr auto rules = std::to_array<named_rule>({{"AUTH", command_rule::own},
                                                  {"EXEC", command_rule::own},
                                                  {"QUIT", command_rule::own},
                                                  {"SYNC", command_rule::refused},
                                                  {"WAIT", command_rule::waiting},
                                                  {"BLPOP", command_rule::waiting},
                                                  {"BRPOP", command_rule::waiting},
                                                  {"DEBUG", command_rule::own},
                                                  {"HELLO", command_rule::refused},
                                                  {"MULTI", command_rule::own},
                                                  {"PSYNC", command_rule::refused},
                                                  {"RESET", command_rule::refused},
                                                  {"WATCH", command_rule::own},
                                                  {"XREAD", command_rule::by_arguments},
                                                  {"ASKING", command_rule::own},
                                                  {"BLMOVE", command_rule::waiting},
                                                  {"BLMPOP", command_rule::waiting},
                                                  {"BZMPOP", command_rule::waiting},
                                                  {"CLIENT", command_rule::by_arguments},
                                                  {"SCRIPT", command_rule::by_arguments},
                                                  {"SELECT", command_rule::own},
                                                  {"DISCARD", command_rule::own},
                                                  {"MONITOR", command_rule::refused},
                                                  {"UNWATCH", command_rule::own},
                                                  {"WAITAOF", command_rule::waiting},
                                                  {"BZPOPMAX", command_rule::waiting},
                                                  {"BZPOPMIN", command_rule::waiting},
                                                  {"FAILOVER", command_rule::own},
                                                  {"READONLY", command_rule::own},
                                                  {"REPLCONF", command_rule::refused},
                                                  {"SHUTDOWN", command_rule::own},
                                                  {"READWRITE", command_rule::own},
                                                  {"SUBSCRIBE", command_rule::refused},
                                                  {"BRPOPLPUSH", command_rule::waiting},
                                                  {"PSUBSCRIBE", command_rule::refused},
                                                  {"SSUBSCRIBE", command_rule::refused},
                                                  {"XREADGROUP", command_rule::by_arguments},
                                                  {"UNSUBSCRIBE", command_rule::refused},
                                                  {"PUNSUBSCRIBE", command_rule::refused},
                                                  {"SUNSUBSCRIBE", command_rule::refused}});
constexpr std::size_t longest_name = rules.back().name.size();

// Element n is the index of the first rule whose name has n characters; the last element is the
// number of all rules.
constexpr auto first_rules = [] {
  std::array<std::size_t, longest_name + 2> first{};
  for (std::size_t size = 0; size < first.size(); ++size) {
    first[size] = static_cast<std::size_t>(std::ranges::count_if(
        rules, [&](const named_rule& rule) { return rule.name.size() < size; }));
  }
  return first;
}();

}  // namespace

command_rule rule_of_name(std::string_view name) noexcept {
  if (name.size() > longest_name) return command_rule::shared;
  const std::size_t end = first_rules[name.size() + 1];
  for (std::size_t index = first_rules[name.size()]; index < end; ++index) {
    if (equals_ignoring_case(name, rules[index].name)) return rules[index].rule;
  }
  return command_rule::shared;
}

command_rule rule_of_written(std::string_view command) noexcept {
  argument_reader arguments(command);
  const std::string_view name = arguments.next().value_or("");
  if (equals_ignoring_case(name, "CLIENT")) {
    const std::string_view subcommand = arguments.next().value_or("");
    for (const char* refused_name : {"CACHING", "REPLY", "TRACKING"}) {
      if (equals_ignoring_case(subcommand, refused_name)) return command_rule::refused;
    }
    return equals_ignoring_case(subcommand, "SETNAME") ? command_rule::own : command_rule::shared;
  }
  if (equals_ignoring_case(name, "SCRIPT")) {
    const bool is_debug = equals_ignoring_case(arguments.next().value_or(""), "DEBUG");
    return is_debug ? command_rule::refused : command_rule::shared;
  }
  if (equals_ignoring_case(name, "XREAD") || equals_ignoring_case(name, "XREADGROUP")) {
    while (const auto option = arguments.next()) {
      if (equals_ignoring_case(*option, "STREAMS")) break;
      if (equals_ignoring_case(*option, "BLOCK")) return command_rule::waiting;
      if (!equals_ignoring_case(*option, "GROUP")) continue;
      // The words after the command are names, either of which may be BLOCK.
      arguments.next();
      arguments.next();
    }
    return command_rule::shared;
  }
  return rule_of_name(name);
}

argument_reader::argument_reader(std::string_view command) noexcept
    : rest_(command.substr(std::min(command.find('\n'), command.size() - 1) + 1)) {}

std::optional<std::string_view> argument_reader::next() noexcept {
  const std::size_t line_end = rest_.find('\r');
  if (line_end == std::string_view::npos) return std::nullopt;
  std::size_t size = 0;
  std::from_chars(rest_.data() + 1, rest_.data() + line_end, size);
  const std::string_view argument = rest_.substr(line_end + 2, size);
  rest_.remove_prefix(line_end + 2 + size + 2);
  return argument;
}

}  // namespace gyre::redis::detail
