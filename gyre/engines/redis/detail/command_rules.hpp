// SPDX-License-Identifier: Apache-2.0
// command_rule: which commands of Redis may share a connection, and which need one of their own.
#pragma once

#include <gyre/io/buffer.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace gyre::redis::detail {

enum class command_rule : std::uint8_t {
  /// The command may share the connection.
  shared,
  /// The command needs a connection of its own, because it changes the connection's state, as
  /// SELECT and WATCH do.
  own,
  /// The command may wait in the server, as BLPOP does: like `own`, and the reply may come late.
  waiting,
  /// The command would change the protocol, as MONITOR does.
  refused,
  /// The rule depends on the arguments: see rule_of_written().
  by_arguments,
};

/// Returns the rule of a command by its name, in any case.
command_rule rule_of_name(std::string_view name) noexcept;
/// Returns the rule of a complete command, as it is sent; never by_arguments.
command_rule rule_of_written(std::string_view command) noexcept;

template <class Command>
command_rule rule_of(const Command& command) {
  const command_rule rule = rule_of_name(command.name());
  if (rule != command_rule::by_arguments) return rule;
  io::buffer written;
  command.write(written);
  return rule_of_written(written.text());
}

/// Reads the arguments of a command as it is sent, the name first.
class argument_reader {
 public:
  explicit argument_reader(std::string_view command) noexcept;

  std::optional<std::string_view> next() noexcept;

 private:
  std::string_view rest_;
};

}  // namespace gyre::redis::detail
